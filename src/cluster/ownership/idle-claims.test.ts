import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  onNodes,
  type PlayedNode,
  serverNamed,
  TestExchange,
} from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';

const memory = serverNamed('memory', { isolation: 'session' });
const common = serverNamed('common', { isolation: 'principal' });
/** A little more than two checks for idle claims. */
const LONG_MS = 125_000;

async function servedBy(nodes: ClusterBench, at: PlayedNode, server: string, sessionId: string | null) {
  const exchange = new TestExchange(sessionId);
  const outcome = await nodes.until(at.cluster.upstreams.call(server, exchange.request, exchange));
  return outcome.kind === 'answer' ? outcome.message.body.toString() : outcome.error.message;
}

test('an unused claim of a caller without a session is released after a while; the claim of a session is kept', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [memory]), await nodes.join('b', [memory])];
    const owned = await a.cluster.ownership.acquire(memory, clientOf(null), 'session');
    for (const sessionId of [null, 's']) assert.equal(await servedBy(nodes, a, 'memory', sessionId), '{"node":"a"}');
    await nodes.pass(LONG_MS);
    assert.equal(a.cluster.figures.owned, 2, 'its process runs');
    a.local.keeps = true;
    const exchange = new TestExchange(null);
    const running = a.cluster.upstreams.call('memory', exchange.request, exchange);
    owned.release();
    owned.release();
    await nodes.pass(LONG_MS);
    assert.equal(a.cluster.figures.owned, 2, 'a call waits for another process');
    a.local.calls.at(-1)!.end({ kind: 'answer', message: exchange.request });
    await running;
    a.local.keeps = false;
    await nodes.pass(LONG_MS);
    assert.equal(a.cluster.figures.owned, 1);
    assert.equal(await servedBy(nodes, b, 'memory', null), '{"node":"b"}');
    assert.equal(await servedBy(nodes, b, 'memory', 's'), '{"node":"a"}');
  }));

test('a warm process that a session adopted counts as that session’s', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [memory]);
    const warm = await a.cluster.ownership.acquire(memory, clientOf(null), 'spare');
    assert.equal(await servedBy(nodes, a, 'memory', null), '{"node":"a"}');
    warm.assignTo(clientOf(null));
    await nodes.pass(LONG_MS);
    assert.deepEqual([a.cluster.figures.owned, warm.isHeld], [2, true]);
    warm.release();
    await nodes.pass(LONG_MS);
    assert.equal(a.cluster.figures.owned, 0);
  }));

test('the process of a principal continues for its other sessions when the first session ends', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [common]), await nodes.join('b', [common])];
    const owned = await a.cluster.ownership.acquire(common, clientOf('s1'), 'principal');
    for (const sessionId of ['s1', 's2']) assert.equal(await servedBy(nodes, a, 'common', sessionId), '{"node":"a"}');
    a.cluster.upstreams.releaseSession('s1');
    await nodes.pass(1_000);
    assert.equal(owned.isHeld, true, 'the claim of its process is still held');
    assert.equal(await servedBy(nodes, b, 'common', 's2'), '{"node":"a"}');
  }));
