import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulServer } from '../../../test/support/scripted-server.ts';
import { serverOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import type { Server } from '../../model/server.ts';

const stateful = () => new ScriptedServer(statefulServer());
const eager = (name: string, changes: Partial<Server> = {}) => serverOf(name, { start: 'eager', ...changes });
const named = (...servers: readonly Server[]) => new Map(servers.map((server) => [server.name, server]));

test('check:A8 the comparison leaves servers alone that run as they should', async () => {
  const bench = new UpstreamBench();
  await bench.run(
    [eager('a'), stateful()],
    [serverOf('lazy'), stateful()],
    [eager('off', { enabled: false }), stateful()],
  );
  const { pid, createdAt } = bench.set.status('a')!.connections[0]!;
  for (let i = 0; i < 3; i++) assert.deepEqual(bench.set.reconcile(), []);
  await settled();
  const [connection] = bench.set.status('a')!.connections;
  assert.deepEqual([connection!.pid, connection!.createdAt], [pid, createdAt]);
  assert.deepEqual(
    bench.set.statuses().map(({ state }) => state),
    ['running', 'unknown', 'suspended'],
  );
});

test('check:A8 the next comparison finishes a change that was interrupted', async () => {
  const bench = new UpstreamBench();
  await bench.run([eager('old'), stateful()], [eager('stays'), stateful()]);
  bench.scripts.set('new', stateful());
  const { knownCatalogs } = bench.stores;
  const load = knownCatalogs.load.bind(knownCatalogs);
  knownCatalogs.load = () => {
    throw new Error('the disk has a bad day');
  };
  await assert.rejects(bench.set.apply(named(eager('stays'), eager('new'))));
  assert.deepEqual(
    bench.set.statuses().map(({ name }) => name),
    ['stays'],
    'the removed server is gone, and the new one has not started',
  );
  // It still cannot start, and the comparison does not throw.
  assert.deepEqual(bench.set.reconcile(), ['new']);
  await settled();
  knownCatalogs.load = load;
  assert.deepEqual(bench.set.reconcile(), ['new']);
  await settled();
  assert.deepEqual(
    bench.set.statuses().map(({ name, state }) => [name, state]),
    [
      ['new', 'running'],
      ['stays', 'running'],
    ],
  );
  assert.deepEqual(bench.set.reconcile(), []);
});

test('check:A8 the comparison does not start a replacement a second time', async () => {
  const bench = new UpstreamBench();
  const script = stateful();
  await bench.run([eager('a'), script]);
  const before = script.links.length;
  script.handlers['initialize'] = () => SILENCE;
  void bench.set.apply(named(eager('a', { connectionDigest: 'another' })));
  await settled();
  const during = script.links.length;
  assert.ok(during > before, 'the new one is starting');
  assert.deepEqual(bench.set.reconcile(), []);
  await settled();
  assert.equal(script.links.length, during);
});
