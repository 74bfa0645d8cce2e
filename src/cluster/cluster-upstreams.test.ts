import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onNodes, type PlayedNode, remoteSpec, serverNamed, TestExchange } from '../../test/support/cluster-bench.ts';
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
    const { begunAt } = exchange;
    await nodes.pass(7_000);
    b.cut();
    // It is gone, and its lease not over yet.
    await nodes.pass(1_800);
    const called = nodes.clock.now();
    assert.equal(bodyOf(await nodes.until(call(a, exchange))), '{"node":"a"}');
    assert.ok(nodes.clock.now() > called, 'its place was not there at once');
    assert.deepEqual([exchange.begunAt, begunAt! < called], [called, true]);
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
    assert.equal(a.local.calls[0]!.exchange.begunAt, undefined);
  }));

test('a call that waits for its owner is NOT_SENT after five seconds, although its exchange makes another one meanwhile', () =>
  onNodes(async (nodes) => {
    const near = serverNamed('near', { transport: remoteSpec });
    const a = await nodes.join('a', [serverNamed('web'), near]);
    const b = await nodes.join('b', [serverNamed('web')]);
    assert.equal(bodyOf(await nodes.until(call(b, new TestExchange()))), '{"node":"b"}');
    // It has dropped the server, and what runs of it does not end: nobody else may have it until then.
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
    assert.equal(exchange.begunAt, undefined);
    assert.equal(bodyOf(await other), '{"node":"a"}');
    const since = nodes.clock.now();
    const outcome = await nodes.until(waiting).finally(ended);
    assert.match(bodyOf(outcome), /^NOT_SENT no node serves web: its owner b is gone/);
    assert.ok(nodes.clock.now() - since <= 5_500, `${nodes.clock.now() - since} ms`);
    await nodes.until(dropped);
  }));

test('a server that is misconfigured at a node is served by another node, and only its own node knows it if there is none', () =>
  onNodes(async (nodes) => {
    const wrong = (name: string) => serverNamed(name, { transport: remoteSpec, misconfigured: 'T is not set' });
    const a = await nodes.join('a', [wrong('web'), wrong('lone')]);
    const b = await nodes.join('b', [web]);
    assert.equal(bodyOf(await nodes.until(call(a, new TestExchange()))), '{"node":"b"}');
    const names = ({ cluster }: PlayedNode) => cluster.upstreams.servers().map(({ name }) => name);
    assert.deepEqual([names(a), names(b)], [['lone', 'web'], ['web']]);
  }));
