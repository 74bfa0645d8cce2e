import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  onNodes,
  type PlayedNode,
  remoteSpec,
  serverNamed,
  TestExchange,
} from '../../test/support/cluster-bench.ts';
import type { SharedState } from '../bus/shared-state.ts';
import type { Exchange } from '../model/exchange.ts';
import type { Outcome } from '../model/outcome.ts';

const web = serverNamed('web', { transport: remoteSpec });

function bodyOf(outcome: Outcome): string {
  return outcome.kind === 'answer' ? outcome.message.body.toString() : `${outcome.error.code} ${outcome.error.message}`;
}

function call({ cluster }: PlayedNode, exchange: Exchange): Promise<Outcome> {
  return cluster.upstreams.call('web', exchange.request, exchange);
}

test('each call of one exchange has its own time to find a node that serves it, and its own deadline', () =>
  onNodes(async (nodes) => {
    const servers = [serverNamed('web')];
    const a = await nodes.join('a', servers);
    const b = await nodes.join('b', servers);
    assert.equal(bodyOf(await nodes.until(call(b, new TestExchange()))), '{"node":"b"}');
    const exchange: Exchange = new TestExchange();
    assert.equal(bodyOf(await nodes.until(call(a, exchange))), '{"node":"b"}');
    const { searchStartedAt: startedAt } = exchange;
    await nodes.pass(7_000);
    b.cut();
    // It is gone, but its lease has not expired.
    await nodes.pass(1_800);
    const called = nodes.clock.now();
    assert.equal(bodyOf(await nodes.until(call(a, exchange))), '{"node":"a"}');
    assert.ok(nodes.clock.now() > called, 'the call waited for a new owner');
    assert.deepEqual([exchange.searchStartedAt, startedAt! < called], [called, true]);
  }));

test('a call of an exchange that is served here does not count for an earlier one that was served elsewhere', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    await nodes.join('b', [web]);
    const exchange = new TestExchange();
    assert.equal(bodyOf(await nodes.until(call(a, exchange))), '{"node":"b"}');
    await nodes.pass(7_000);
    await a.cluster.apply(new Map([['web', web]]));
    assert.equal(bodyOf(await nodes.until(call(a, exchange))), '{"node":"a"}');
    assert.equal(a.local.calls[0]!.exchange.searchStartedAt, undefined);
  }));

test('a call that waits for its owner is NOT_SENT after five seconds, although its exchange makes another one meanwhile', () =>
  onNodes(async (nodes) => {
    const near = serverNamed('near', { transport: remoteSpec });
    const a = await nodes.join('a', [serverNamed('web'), near]);
    const b = await nodes.join('b', [serverNamed('web')]);
    assert.equal(bodyOf(await nodes.until(call(b, new TestExchange()))), '{"node":"b"}');
    // Node b has dropped the server, but its process does not end yet: no other node may own the server until then.
    let ended = (): void => {};
    b.local.ending = new Promise((resolve) => {
      ended = resolve;
    });
    const dropped = b.cluster.apply(new Map());
    await nodes.pass(800);
    const exchange: Exchange = new TestExchange();
    const waiting = call(a, exchange);
    await nodes.pass(1_000);
    const other = a.cluster.upstreams.call('near', exchange.request, exchange);
    assert.equal(exchange.searchStartedAt, undefined);
    assert.equal(bodyOf(await other), '{"node":"a"}');
    const since = nodes.clock.now();
    const outcome = await nodes.until(waiting).finally(ended);
    assert.match(bodyOf(outcome), /^NOT_SENT no node serves web: its owner b is gone/);
    assert.ok(nodes.clock.now() - since <= 5_500, `${nodes.clock.now() - since} ms`);
    await nodes.until(dropped);
  }));

test('a server misconfigured at one node is served by another; if no other node has it, only that node lists it', () =>
  onNodes(async (nodes) => {
    const wrong = (name: string) => serverNamed(name, { transport: remoteSpec, misconfigured: 'T is not set' });
    const a = await nodes.join('a', [wrong('web'), wrong('lone')]);
    const b = await nodes.join('b', [web]);
    assert.equal(bodyOf(await nodes.until(call(a, new TestExchange()))), '{"node":"b"}');
    const names = ({ cluster }: PlayedNode) => cluster.upstreams.servers().map(({ name }) => name);
    assert.deepEqual([names(a), names(b)], [['lone', 'web'], ['web']]);
  }));

/** The store as it is while its servers elect a leader: no record can be read. */
function electing(nodes: ClusterBench): { readonly state: SharedState; silent: boolean } {
  const store = {
    silent: false,
    state: {
      bucket: (name, options) =>
        new Proxy(nodes.state.bucket(name, options), {
          get: (bucket, key) => {
            if (store.silent && key === 'get') return () => Promise.reject(new Error('no leader'));
            const member: unknown = Reflect.get(bucket, key);
            return typeof member === 'function' ? member.bind(bucket) : member;
          },
        }),
    } satisfies SharedState as SharedState,
  };
  return store;
}

test('fault:F43 a call that does not reach its owner for a moment is sent when the owner is back, without reading the store', () =>
  onNodes(async (nodes) => {
    const store = electing(nodes);
    const a = await nodes.join('a', [serverNamed('web')], { state: store.state });
    const b = await nodes.join('b', [serverNamed('web')]);
    assert.equal(bodyOf(await nodes.until(call(b, new TestExchange()))), '{"node":"b"}');
    assert.equal(bodyOf(await nodes.until(call(a, new TestExchange()))), '{"node":"b"}');
    store.silent = true;
    b.cut();
    const called = nodes.clock.now();
    const waiting = call(a, new TestExchange());
    await nodes.pass(300);
    b.restore();
    assert.equal(bodyOf(await nodes.until(waiting)), '{"node":"b"}');
    assert.ok(nodes.clock.now() - called < 1_000, `${nodes.clock.now() - called} ms`);
    store.silent = false;
  }));

test('fault:F43 a call whose owner the store does not name in time is NOT_SENT at its deadline, and is not sent after it', () =>
  onNodes(async (nodes) => {
    const store = electing(nodes);
    const a = await nodes.join('a', [serverNamed('web', { timeoutMs: 5_000 })], { state: store.state });
    store.silent = true;
    const called = nodes.clock.now();
    assert.match(bodyOf(await nodes.until(call(a, new TestExchange()))), /^NOT_SENT .*not found in time/);
    assert.ok(nodes.clock.now() - called <= 5_100, `${nodes.clock.now() - called} ms`);
    store.silent = false;
    await nodes.pass(1_000);
    assert.deepEqual(a.local.calls, []);
    assert.equal(bodyOf(await nodes.until(call(a, new TestExchange()))), '{"node":"a"}');
  }));
