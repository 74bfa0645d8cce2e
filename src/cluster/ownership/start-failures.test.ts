import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  callOf,
  onNodes,
  type PlayedNode,
  serverNamed,
} from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import type { Server } from '../../model/server.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { GIVE_UP_MS, PAUSE_MS, StartFailures } from './own-servers.ts';

const ONE = serverNamed('one', { singleton: true });

async function servedBy(nodes: ClusterBench, node: PlayedNode): Promise<string> {
  const outcome = await nodes.until(callOf(node, 'one'));
  return outcome.kind === 'answer' ? outcome.message.body.toString() : outcome.error.message;
}

/** The node that runs the singleton now; fails if two nodes run it at once. */
function runsAt({ nodes }: ClusterBench): string | null {
  const at = nodes.filter(({ local }) => local.desired.has('one'));
  assert.ok(at.length <= 1, 'two at once');
  return at[0]?.id ?? null;
}

function isUp({ local }: PlayedNode): void {
  local.states.set('one', { name: 'one', state: 'running' } as ServerStatus);
}

test('a singleton that its node cannot start goes to another instance once its process has ended', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    await nodes.pass(1_500);
    a.local.failed.add('one');
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    await nodes.pass(GIVE_UP_MS - 1_000, () => assert.equal(runsAt(nodes), 'a'));
    // No other node runs it before its last process has ended, however long that takes.
    await nodes.pass(10_000, () => assert.notEqual(runsAt(nodes), 'b'));
    assert.equal(runsAt(nodes), null);
    ended.resolve();
    await nodes.pass(1_500);
    assert.equal(runsAt(nodes), 'b');
    for (const node of [a, b]) assert.equal(await servedBy(nodes, node), '{"node":"b"}');
    // It stays where it runs.
    isUp(b);
    a.local.failed.clear();
    await nodes.pass(PAUSE_MS + 5_000, () => assert.equal(runsAt(nodes), 'b'));
  }));

test('a singleton that no other node can run stays on its node, and moves as soon as one can', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [ONE]);
    await nodes.join('c', []);
    await nodes.pass(1_500);
    a.local.failed.add('one');
    await nodes.pass(3 * GIVE_UP_MS, () => assert.equal(runsAt(nodes), 'a'));
    await nodes.join('b', [ONE]);
    await nodes.pass(2_000);
    assert.equal(runsAt(nodes), 'b');
  }));

test('a running singleton stays, and each run resets its time to start', () =>
  onNodes(async (nodes) => {
    const [a] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    await nodes.pass(1_500);
    for (let i = 0; i < 3; i++) {
      a.local.failed.add('one');
      await nodes.pass(GIVE_UP_MS - 3_000, () => assert.equal(runsAt(nodes), 'a'));
      a.local.failed.clear();
      isUp(a);
      await nodes.pass(1_500, () => assert.equal(runsAt(nodes), 'a'));
      a.local.states.clear();
    }
  }));

test('a node that could not start a singleton takes it at once if no other node is left', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    await nodes.pass(1_500);
    a.local.failed.add('one');
    await nodes.pass(GIVE_UP_MS + 2_000);
    assert.equal(runsAt(nodes), 'b');
    a.local.failed.clear();
    b.cluster.drain();
    b.cluster.handOver();
    await nodes.pass(2_500);
    assert.equal(runsAt(nodes), 'a');
  }));

test('a singleton with a running part stays, whatever part cannot start', () =>
  onNodes(async (nodes) => {
    const [a] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    await nodes.pass(1_500);
    const owned = await a.cluster.ownership.acquire(ONE, clientOf('s'), 'session');
    owned.ready();
    a.local.failed.add('one');
    await nodes.pass(3 * GIVE_UP_MS, () => assert.equal(runsAt(nodes), 'a'));
    owned.ending();
    await nodes.pass(2_000);
    assert.equal(runsAt(nodes), 'b');
  }));

test('a singleton whose process never becomes ready goes to another instance, too', () =>
  onNodes(async (nodes) => {
    const [a] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    await nodes.pass(1_500);
    await a.cluster.ownership.acquire(ONE, clientOf('s'), 'session');
    a.local.failed.add('one');
    await nodes.pass(GIVE_UP_MS + 2_500);
    assert.equal(runsAt(nodes), 'b');
  }));

test('changes of other definitions reset neither the time to start nor the pause of a singleton', () =>
  onNodes(async (nodes) => {
    const [a] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    await nodes.pass(1_500);
    a.local.failed.add('one');
    const says = (...servers: Server[]): Promise<void> =>
      a.cluster.apply(new Map(servers.map((server) => [server.name, server])));
    for (let i = 0; i < 4; i++) {
      assert.equal(runsAt(nodes), 'a');
      await nodes.until(says(ONE, serverNamed(`more ${i}`)));
      await nodes.pass(4_000);
    }
    await nodes.pass(2_000);
    assert.equal(runsAt(nodes), 'b');
    await nodes.until(says(ONE));
    await nodes.pass(PAUSE_MS / 2, () => assert.notEqual(runsAt(nodes), 'a'));
  }));

test('a singleton on its way to a node that drains starts here only when its old process has ended', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    await nodes.pass(1_500);
    a.local.failed.add('one');
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    await nodes.pass(GIVE_UP_MS + 1_500);
    assert.equal(runsAt(nodes), null);
    b.cluster.drain();
    const asked = callOf(a, 'one');
    await nodes.pass(4_000, () => assert.equal(runsAt(nodes), null));
    ended.resolve();
    assert.equal((await nodes.until(asked)).kind, 'answer');
    assert.equal(runsAt(nodes), 'a');
  }));

test('a singleton that no node can start goes from node to node, and every call is an attempt', () =>
  onNodes(async (nodes) => {
    const all = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    const c = await nodes.join('c', []);
    await nodes.pass(1_500);
    for (const { local } of all) local.failed.add('one');
    const seen: (string | null)[] = [];
    await nodes.pass(10 * GIVE_UP_MS, () => {
      const at = runsAt(nodes);
      if (at !== null && at !== seen.at(-1)) seen.push(at);
    });
    assert.ok(seen.length >= 6, `it went round: ${seen}`);
    for (let i = 0; i < 20; i++) {
      for (const node of [...all, c]) assert.match(await servedBy(nodes, node), /^\{"node":"[ab]"\}$/);
      await nodes.pass(1_700);
    }
  }));

test('a call while no node runs a singleton does not move it to a node that cannot start it', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [ONE]), await nodes.join('b', [ONE])];
    const c = await nodes.join('c', []);
    await nodes.pass(1_500);
    a.local.failed.add('one');
    const calls: Promise<string>[] = [];
    await nodes.pass(GIVE_UP_MS + 3_000, () => {
      for (const node of [a, b, c]) calls.push(servedBy(nodes, node));
      runsAt(nodes);
    });
    assert.equal(runsAt(nodes), 'b');
    assert.deepEqual(new Set(await nodes.until(Promise.all(calls))), new Set(['{"node":"a"}', '{"node":"b"}']));
  }));

test('a start has failed after fifteen seconds without success', async () => {
  const clock = new FakeClock();
  const failures = new StartFailures(clock);
  assert.equal(failures.isLong('one', true), false);
  await clock.advance(GIVE_UP_MS - 1);
  assert.deepEqual([failures.isLong('one', true), failures.isLong('two', true)], [false, false]);
  await clock.advance(1);
  assert.deepEqual([failures.isLong('one', true), failures.isLong('two', true)], [true, false]);
  assert.deepEqual([failures.isLong('one', false), failures.isLong('one', true)], [false, false]);
  failures.gaveUp('one');
  assert.deepEqual([failures.paused('one'), failures.paused('two')], [true, false]);
  await clock.advance(PAUSE_MS - 1);
  assert.equal(failures.paused('one'), true);
  await clock.advance(1);
  assert.deepEqual([failures.paused('one'), failures.isLong('one', true)], [false, false]);
  failures.gaveUp('one');
  failures.gaveUp('two');
  failures.forget('one');
  assert.deepEqual([failures.paused('one'), failures.paused('two')], [false, true]);
});
