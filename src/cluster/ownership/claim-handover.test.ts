import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  callOf,
  onNodes,
  type PlayedNode,
  serverNamed,
  TestExchange,
  wordOf,
} from '../../../test/support/cluster-bench.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { request, result } from '../../protocol/compose.ts';

class ListenExchange extends TestExchange {
  override readonly request: Message = request('subscriptions/listen', '7', '{"notifications":{}}', 'stateful');
}

/** From now on calls to the node take `ms`, or the time of their session in `others`. */
function takes(nodes: ClusterBench, node: PlayedNode, ms: number, others: Readonly<Record<string, number>> = {}): void {
  node.local.handle = ({ exchange: { client }, request: message, end }) =>
    nodes.clock.after(others[client.sessionId ?? ''] ?? ms, () =>
      end(answer(result('1', `{"node":"${node.id}"}`, message.era))),
    );
}

/** Drains the node: from now on only other nodes call it. */
function leave({ cluster }: PlayedNode): void {
  cluster.drain();
  cluster.handOver();
}

/** Begins a call every 100 ms for `ms`. Resolves with the distinct outcomes. */
async function calledFor(nodes: ClusterBench, ms: number, begin: () => Promise<Outcome>): Promise<Set<string>> {
  const calls: Promise<Outcome>[] = [];
  for (let passed = 0; passed < ms; passed += 100) {
    calls.push(begin());
    await nodes.pass(100);
  }
  return new Set((await nodes.until(Promise.all(calls))).map(wordOf));
}

const MEMORY = serverNamed('memory', { isolation: 'session' });

test('fault:F33 check:H7 a claim without a call moves as soon as its process has ended, not before; the client with state is notified', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    await nodes.until(callOf(a, 'memory', 'one'));
    const { promise, resolve } = Promise.withResolvers<void>();
    a.local.ending = promise;
    leave(a);
    const waiting = callOf(b, 'memory', 'one');
    await settled();
    assert.deepEqual(a.local.handedOver, ['memory one'], 'it ends at once');
    await nodes.pass(2_000, () => assert.equal(b.local.calls.length, 0, 'two processes at once'));
    assert.equal(a.cluster.inFlight, 1);
    assert.equal(a.local.calls.length, 1, 'nothing more begins there');
    resolve();
    assert.equal(wordOf(await nodes.until(waiting)), '{"node":"b"}');
    assert.equal(
      wordOf(await nodes.until(callOf(a, 'memory', 'one'))),
      '{"node":"b"}',
      'a client of the node that drains',
    );
    assert.equal(a.cluster.inFlight, 0);
    assert.deepEqual(
      b.events.heard.filter((text) => text.startsWith('stateLost')),
      ['stateLost memory one'],
    );
  }));

test('fault:F33 goal:G8 check:H7 continuous calls of other nodes do not hold a claim: it moves, no call fails', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    await nodes.until(callOf(a, 'memory', 'one'));
    for (const node of [a, b]) takes(nodes, node, 700);
    void calledFor(nodes, 1_000, () => callOf(b, 'memory', 'one'));
    await nodes.pass(500);
    leave(a);
    assert.deepEqual(a.local.handedOver, []);
    const outcomes = await calledFor(nodes, 4_000, () => callOf(b, 'memory', 'one'));
    assert.deepEqual(outcomes, new Set(['{"node":"b"}']));
    assert.deepEqual(a.local.handedOver, ['memory one']);
    assert.equal(a.cluster.inFlight, 0);
  }));

test('fault:F33 check:H7 calls that overlap and take longer get more time, and none fails', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    await nodes.until(callOf(a, 'memory', 'one'));
    for (const node of [a, b]) takes(nodes, node, 2_000);
    void calledFor(nodes, 2_500, () => callOf(b, 'memory', 'one'));
    await nodes.pass(2_500);
    leave(a);
    const outcomes = await calledFor(nodes, 20_000, () => callOf(b, 'memory', 'one'));
    assert.deepEqual(outcomes, new Set(['{"node":"a"}', '{"node":"b"}']));
    assert.deepEqual(a.local.handedOver, ['memory one']);
  }));

test('fault:F33 check:H7 a long call is not cut: its session is served meanwhile, others move, and no call fails because of it', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    for (const session of ['one', 'two']) await nodes.until(callOf(a, 'memory', session));
    for (const node of [a, b]) takes(nodes, node, 10);
    a.local.handle = null;
    a.local.keeps = true;
    const long = callOf(b, 'memory', 'one');
    await nodes.pass(100);
    const { end } = a.local.calls.at(-1)!;
    takes(nodes, a, 10);
    leave(a);
    await settled();
    assert.deepEqual(a.local.handedOver, ['memory two']);
    const [beside, others] = await Promise.all([
      calledFor(nodes, 15_000, () => callOf(b, 'memory', 'one')),
      calledFor(nodes, 15_000, () => callOf(b, 'memory', 'two')),
    ]);
    assert.deepEqual(beside, new Set(['{"node":"a"}']));
    assert.deepEqual(others, new Set(['{"node":"b"}']));
    assert.deepEqual(a.local.handedOver, ['memory two']);
    end(answer(result('1', '{"long":true}', 'stateful')));
    assert.equal(wordOf(await nodes.until(long)), '{"long":true}');
    await nodes.pass(500);
    assert.deepEqual(a.local.handedOver, ['memory two', 'memory one']);
    assert.equal(wordOf(await nodes.until(callOf(b, 'memory', 'one'))), '{"node":"b"}');
  }));

test('fault:F33 check:H7 a singleton that all nodes call moves: it ends here, then begins there, and no call fails', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
    await nodes.pass(1_500);
    for (const node of [a, b]) takes(nodes, node, 300);
    const { promise, resolve } = Promise.withResolvers<void>();
    a.local.ending = promise;
    let both = 0;
    const running = calledFor(nodes, 5_000, () => callOf(b, 'one', 's'));
    await nodes.pass(500);
    leave(a);
    await nodes.pass(1_500, () => (both += b.local.desired.has('one') ? 1 : 0));
    assert.equal(both, 0, 'it has not ended');
    assert.deepEqual(a.local.handedOver, ['one null']);
    resolve();
    assert.deepEqual(await running, new Set(['{"node":"a"}', '{"node":"b"}']));
    assert.deepEqual([a.local.desired.has('one'), b.local.desired.has('one')], [false, true]);
  }));

test('fault:F33 streams from other nodes do not block a drain', () =>
  onNodes(async (nodes) => {
    const shared = serverNamed('shared', { isolation: 'shared' });
    const [a, b] = [await nodes.join('a', [MEMORY, shared]), await nodes.join('b', [MEMORY])];
    await nodes.until(callOf(a, 'memory', 'one'));
    a.local.keeps = true;
    const listens = ['memory', 'shared'].map((server) => {
      const exchange = new ListenExchange('one');
      return b.cluster.upstreams.call(server, exchange.request, exchange);
    });
    await nodes.pass(200);
    assert.equal(a.local.calls.filter(({ request: { method } }) => method === 'subscriptions/listen').length, 2);
    assert.equal(a.cluster.inFlight, 0);
    leave(a);
    await nodes.pass(200);
    assert.deepEqual(a.local.handedOver, ['memory one']);
    assert.equal(a.cluster.inFlight, 0);
    for (const { end } of a.local.calls) end(answer(result('7', '{}', 'stateful')));
    await nodes.until(Promise.all(listens));
  }));

test('fault:F33 a claim that no other node can serve stays at its node, which can leave between two calls', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [])];
    await nodes.until(callOf(b, 'memory', 'idle'));
    takes(nodes, a, 700);
    void calledFor(nodes, 1_000, () => callOf(b, 'memory', 'one'));
    await nodes.pass(500);
    leave(a);
    let idle = 0;
    const end = nodes.clock.now() + 9_000;
    const running = calledFor(nodes, 9_000, () => callOf(b, 'memory', 'one'));
    const counting = (): void => {
      if (a.cluster.inFlight === 0) idle++;
      if (nodes.clock.now() < end) nodes.clock.after(50, counting);
    };
    counting();
    assert.deepEqual(await running, new Set(['{"node":"a"}']));
    assert.ok(idle > 0, 'the node can leave when no call is in flight');
    assert.deepEqual(a.local.handedOver, []);
  }));

test('fault:F33 a process that cannot be ended stays claimed until its node has left', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    await nodes.until(callOf(a, 'memory', 'one'));
    a.local.ending = Promise.reject(new Error('it hangs'));
    a.local.ending.catch(() => {});
    leave(a);
    const waiting = callOf(b, 'memory', 'one');
    await nodes.pass(3_000);
    assert.deepEqual(a.local.handedOver, ['memory one'], 'it is tried once');
    assert.equal(a.cluster.inFlight, 0);
    assert.equal(b.local.calls.length, 0);
    await nodes.until(a.cluster.close());
    assert.equal(wordOf(await nodes.until(waiting)), '{"node":"b"}');
  }));
