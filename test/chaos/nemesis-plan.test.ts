import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planNemesis } from './nemesis-plan.ts';

const OPTIONS = { durationMs: 600_000, nodes: 3, everyMs: 1_000, stopMs: 8_000 };

test('the same seed gives the same faults, another seed gives others', () => {
  const plan = planNemesis({ seed: 1, ...OPTIONS });
  assert.deepEqual(planNemesis({ seed: 1, ...OPTIONS }), plan);
  assert.notDeepEqual(planNemesis({ seed: 2, ...OPTIONS }), plan);
});

test('a plan has every kind (kills twice) before it repeats one, at every node, for longer than the run', () => {
  const { nodes, services } = planNemesis({ seed: 7, ...OPTIONS });
  const kinds = new Set(nodes.map(({ kind }) => kind));
  assert.equal(kinds.size, 9);
  assert.equal(new Set(nodes.slice(0, 10).map(({ kind }) => kind)).size, 9);
  const ofServices = [...new Set(services.slice(0, 4).map(({ kind }) => kind))].sort();
  assert.deepEqual(ofServices, ['nats_forgets', 'nats_kill', 'store_kill']);
  assert.deepEqual([...new Set(nodes.map(({ node }) => node))].sort(), [0, 1, 2]);
  const lasts = nodes.reduce((ms, { afterMs, forMs }) => ms + afterMs + forMs, 0);
  assert.ok(lasts >= OPTIONS.durationMs, `${lasts}`);
});
