import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ClusterBench,
  type PlayedNode,
  remoteSpec,
  serverNamed,
  TestExchange,
} from '../../../test/support/cluster-bench.ts';
import type { CuttableWire } from '../../../test/support/cuttable-wire.ts';
import { type Call, clientOf } from '../../../test/support/played-upstreams.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { request, result } from '../../protocol/compose.ts';

const web = serverNamed('web', { transport: remoteSpec, isolation: 'shared' });
/** A process of its own on each node. */
const local = serverNamed('local', { isolation: 'shared' });
const URI = 'counter://value';
const SUBSCRIBE = 'resources/subscribe';
const UNSUBSCRIBE = 'resources/unsubscribe';

/** Nodes whose calls reach one session of a server, which does what the last request asked for. */
class Bench extends ClusterBench {
  readonly asked: string[] = [];
  /** Requests that the slow server has not handled yet. */
  readonly waiting: Call[] = [];
  slow = false;

  async node(id: string, servers = [web]): Promise<PlayedNode> {
    const node = await this.join(id, servers);
    node.local.sessionKey = () => 'shared';
    node.local.handle = (call) => void (this.slow ? this.waiting.push(call) : this.take(call));
    return node;
  }

  take({ request: { method }, end }: Call): void {
    this.asked.push(method);
    end(answer(result('1', '{}', 'stateful')));
  }

  ask({ cluster, id }: PlayedNode, method: string, server = web.name): Promise<Outcome> {
    const message = request(method, '7', JSON.stringify({ uri: URI }), 'stateful');
    const exchange: Exchange = Object.assign(new TestExchange(), { request: message, client: clientOf(id) });
    return cluster.upstreams.call(server, message, exchange);
  }

  async asks(node: PlayedNode, method: string, server = web.name): Promise<void> {
    const outcome = await this.until(this.ask(node, method, server));
    assert.ok(outcome.kind === 'answer' && outcome.message.kind === 'result');
  }
}

/** The events since the last call that make the node subscribe again. */
function renewed({ events }: PlayedNode): string[] {
  return events.heard.splice(0).filter((line) => line.startsWith('connectionChanged'));
}

async function bench(run: (nodes: Bench) => Promise<void>): Promise<void> {
  const nodes = new Bench();
  try {
    await run(nodes);
  } finally {
    await nodes.dispose();
  }
}

test('check:C9 only the last unsubscribe of the nodes that watch in one session of a server reaches it', () =>
  bench(async (nodes) => {
    const [a, b, c] = [await nodes.node('a'), await nodes.node('b'), await nodes.node('c', [])];
    for (const node of [a, b, c]) await nodes.asks(node, SUBSCRIBE);
    assert.deepEqual(nodes.asked.splice(0), [SUBSCRIBE, SUBSCRIBE, SUBSCRIBE]);
    await nodes.asks(a, UNSUBSCRIBE);
    await nodes.asks(c, UNSUBSCRIBE);
    assert.deepEqual(nodes.asked, []);
    await nodes.asks(b, UNSUBSCRIBE);
    assert.deepEqual(nodes.asked, [UNSUBSCRIBE]);
  }));

test('check:C9 a dead node does not prevent an unsubscribe, a node that only does not answer does', () =>
  bench(async (nodes) => {
    const [a, b, c] = [await nodes.node('a'), await nodes.node('b'), await nodes.node('c')];
    for (const node of [a, b]) await nodes.asks(node, SUBSCRIBE);
    b.cut();
    await nodes.pass(2_000);
    await nodes.asks(a, UNSUBSCRIBE);
    assert.deepEqual(nodes.asked.splice(0), [SUBSCRIBE, SUBSCRIBE, UNSUBSCRIBE]);
    await nodes.asks(a, SUBSCRIBE);
    // Silent for too short a time to count as lost.
    c.cut();
    await nodes.asks(a, UNSUBSCRIBE);
    assert.deepEqual(nodes.asked, [SUBSCRIBE]);
  }));

test('check:C9 a node that was considered gone subscribes again to what it watches when it is back', () =>
  bench(async (nodes) => {
    const [a, b] = [await nodes.node('a'), await nodes.node('b', [web, local])];
    for (const node of [a, b]) await nodes.asks(node, SUBSCRIBE);
    await nodes.asks(b, SUBSCRIBE, local.name);
    b.cut();
    await nodes.pass(2_000);
    await nodes.asks(a, UNSUBSCRIBE);
    assert.equal(nodes.asked.at(-1), UNSUBSCRIBE);
    assert.deepEqual(renewed(b), []);
    b.restore();
    await nodes.pass(100);
    assert.deepEqual(renewed(b), ['connectionChanged web shared ended']);
    assert.deepEqual(renewed(a), []);
    nodes.clock.skip(1_200);
    await nodes.pass(1_000);
    assert.deepEqual(renewed(b), ['connectionChanged web shared ended']);
    await nodes.pass(5_000);
    assert.deepEqual(renewed(b), []);
  }));

test('check:C9 a client that subscribes at one node while another node unsubscribes is subscribed when both are done', () =>
  bench(async (nodes) => {
    const [a, b] = [await nodes.node('a'), await nodes.node('b')];
    await nodes.asks(a, SUBSCRIBE);
    nodes.slow = true;
    const givenUp = nodes.ask(a, UNSUBSCRIBE);
    await nodes.pass(100);
    const subscribed = [nodes.ask(b, SUBSCRIBE), nodes.ask(a, SUBSCRIBE)];
    await nodes.pass(100);
    nodes.slow = false;
    // The server may handle the requests that it has by now in any order.
    for (const call of nodes.waiting.splice(0).reverse()) nodes.take(call);
    await nodes.until(Promise.all([givenUp, ...subscribed]));
    assert.deepEqual(nodes.asked.slice(-3), [UNSUBSCRIBE, SUBSCRIBE, SUBSCRIBE]);
    await nodes.asks(a, UNSUBSCRIBE);
    assert.equal(nodes.asked.at(-1), SUBSCRIBE);
  }));

test('check:C9 an unsubscribe that takes the server long removes no later subscription', () =>
  bench(async (nodes) => {
    const [a, b] = [await nodes.node('a'), await nodes.node('b')];
    await nodes.asks(a, SUBSCRIBE);
    nodes.slow = true;
    const givenUp = nodes.ask(a, UNSUBSCRIBE);
    await nodes.pass(100);
    const subscribed = [nodes.ask(b, SUBSCRIBE), nodes.ask(a, SUBSCRIBE)];
    await nodes.pass(30_000);
    assert.equal(nodes.waiting.length, 1, 'the server has not answered the unsubscribe');
    nodes.slow = false;
    nodes.take(nodes.waiting.pop()!);
    await nodes.until(Promise.all([givenUp, ...subscribed]));
    assert.deepEqual(nodes.asked.slice(-3), [UNSUBSCRIBE, SUBSCRIBE, SUBSCRIBE]);
  }));

test('check:C9 a client that subscribes does not wait for ever for a node that died while it unsubscribed', () =>
  bench(async (nodes) => {
    const [a, b] = [await nodes.node('a'), await nodes.node('b')];
    nodes.slow = true;
    void nodes.ask(a, UNSUBSCRIBE);
    await nodes.pass(100);
    assert.equal(nodes.waiting.length, 1);
    a.cut();
    const subscribed = nodes.ask(b, SUBSCRIBE);
    await nodes.pass(100);
    assert.equal(nodes.waiting.length, 1);
    nodes.slow = false;
    await nodes.until(subscribed);
    assert.deepEqual(nodes.asked, [SUBSCRIBE]);
    for (const call of nodes.waiting.splice(0)) nodes.take(call);
  }));

test('check:C9 a client that subscribes does not wait for ever for a node whose report of its unsubscribe was lost', () =>
  bench(async (nodes) => {
    const wires: CuttableWire[] = [];
    const open = nodes.hub.open.bind(nodes.hub);
    nodes.hub.open = () => {
      wires.push(open());
      return wires.at(-1)!;
    };
    const [a, b] = [await nodes.node('a'), await nodes.node('b')];
    await nodes.asks(a, SUBSCRIBE);
    nodes.slow = true;
    const givenUp = nodes.ask(a, UNSUBSCRIBE);
    await nodes.pass(2_000);
    nodes.slow = false;
    wires[0]!.muted = /^trunkline\.call\./;
    nodes.take(nodes.waiting.pop()!);
    await nodes.until(givenUp);
    wires[0]!.muted = null;
    const subscribed = nodes.ask(b, SUBSCRIBE);
    await nodes.pass(1_000);
    assert.equal(nodes.asked.at(-1), UNSUBSCRIBE);
    await nodes.until(subscribed, 5_000);
    assert.equal(nodes.asked.at(-1), SUBSCRIBE);
  }));

test('check:C9 a node watches after one of two concurrent subscriptions has failed, whichever came first', () =>
  bench(async (nodes) => {
    const [a, b] = [await nodes.node('a'), await nodes.node('b')];
    for (const failing of [0, 1]) {
      nodes.slow = true;
      const subscribed = [nodes.ask(a, SUBSCRIBE), nodes.ask(a, SUBSCRIBE)];
      await nodes.pass(100);
      nodes.slow = false;
      const calls = nodes.waiting.splice(0);
      calls[failing]!.end(failure(new GatewayError('CANCELLED', 'its client has gone')));
      await nodes.pass(100);
      nodes.take(calls[1 - failing]!);
      await nodes.until(Promise.all(subscribed));
      await nodes.asks(b, SUBSCRIBE);
      await nodes.asks(b, UNSUBSCRIBE);
      assert.equal(nodes.asked.at(-1), SUBSCRIBE);
      await nodes.asks(a, UNSUBSCRIBE);
      assert.equal(nodes.asked.at(-1), UNSUBSCRIBE);
    }
  }));

test('check:C9 a node does not watch after both of two concurrent subscriptions have failed', () =>
  bench(async (nodes) => {
    const [a, b] = [await nodes.node('a'), await nodes.node('b')];
    nodes.slow = true;
    const subscribed = [nodes.ask(a, SUBSCRIBE), nodes.ask(a, SUBSCRIBE)];
    await nodes.pass(100);
    nodes.slow = false;
    for (const { end } of nodes.waiting.splice(0)) end(failure(new GatewayError('CANCELLED', 'its client has gone')));
    await nodes.until(Promise.all(subscribed));
    await nodes.asks(b, SUBSCRIBE);
    await nodes.asks(b, UNSUBSCRIBE);
    assert.equal(nodes.asked.at(-1), UNSUBSCRIBE);
  }));
