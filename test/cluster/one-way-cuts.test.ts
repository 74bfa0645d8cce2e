import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FULL, measured } from '../faults/measured.ts';
import { cutNodes } from '../faults/nodes/one-way-cuts.ts';

const SEED = Number(process.env['TRUNKLINE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test('fault:F29 under load, a node cut off from NATS in one direction serves nothing that it owned, nothing runs twice, and nothing has two owners', async (t) => {
  t.diagnostic(`seed ${SEED}`);
  const result = await cutNodes({
    seed: SEED,
    cuts: FULL ? [['up'], ['down'], ['up', 'down']] : [['up'], ['down']],
    cutMs: 6_000,
    clients: FULL ? 24 : 8,
    lateMs: FULL ? 1_000 : 20_000,
  });
  t.diagnostic(`${result.calls} calls`);
  assert.deepEqual(result.violations, []);
  assert.deepEqual(result.lost, []);
  // L - 0.5 s after the last renewal, plus the time of one readiness check.
  measured(t, 'F29', 'from the cut to not being ready', result.fencedMs, 'ms', 3_000);
  measured(t, 'F29', 'from the end of the cut to all nodes being ready', result.backMs, 'ms');
});
