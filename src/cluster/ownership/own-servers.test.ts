import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench, type PlayedNode, serverNamed, TestExchange } from '../../../test/support/cluster-bench.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { Server } from '../../model/server.ts';

async function bench(run: (bench: ClusterBench) => Promise<void>): Promise<void> {
  const made = new ClusterBench();
  try {
    await run(made);
  } finally {
    await made.dispose();
  }
}

/** The node's files say this from now on. Ends when what they do not name any more has ended. */
function files(node: PlayedNode, ...servers: Server[]): Promise<void> {
  return node.cluster.apply(new Map(servers.map((server) => [server.name, server])));
}

function call(node: PlayedNode, server: string, session: string): Promise<Outcome> {
  const exchange = new TestExchange(session);
  return node.cluster.upstreams.call(server, exchange.request, exchange);
}

function wordOf(outcome: Outcome): string {
  return outcome.kind === 'answer' ? outcome.message.body.toString() : outcome.error.outcome;
}

test('fault:F31 a singleton that its node’s file drops is begun elsewhere when its process has ended, not before', () =>
  bench(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
    await nodes.pass(1_500);
    a.local.keeps = true;
    const running = call(a, 'one', 's');
    await nodes.pass(100);
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    const dropped = files(a);
    // Longer than any lease, and than whoever looks for what became free waits.
    await nodes.pass(10_000, () => assert.equal(b.local.desired.has('one'), false, 'two at once'));
    for (const node of [a, b]) assert.equal(wordOf(await nodes.until(call(node, 'one', 's'))), 'NOT_SENT');
    // What it was about to answer still counts.
    a.local.calls[0]!.end({ kind: 'answer', message: new TestExchange('s').request });
    assert.equal((await nodes.until(running)).kind, 'answer');
    ended.resolve();
    await nodes.until(dropped);
    await nodes.pass(1_500);
    assert.equal(b.local.desired.has('one'), true);
    for (const node of [a, b]) assert.equal(wordOf(await nodes.until(call(node, 'one', 's'))), '{"node":"b"}');
  }));

test('a singleton that comes back to the file before its process has ended begins anew there, after that', () =>
  bench(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
    await nodes.pass(1_500);
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    const dropped = files(a);
    await nodes.pass(200);
    await files(a, one);
    await nodes.pass(3_000, () =>
      assert.deepEqual([a.local.desired.has('one'), b.local.desired.has('one')], [false, false]),
    );
    ended.resolve();
    await nodes.until(dropped);
    await nodes.pass(1_500);
    assert.deepEqual([a.local.desired.has('one'), b.local.desired.has('one')], [true, false]);
    assert.equal(wordOf(await nodes.until(call(b, 'one', 's'))), '{"node":"a"}');
  }));

test('the sessions of a server that its node’s file drops go to another home, when their processes have ended', () =>
  bench(async (nodes) => {
    const memory = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [memory]), await nodes.join('b', [memory])];
    assert.equal(wordOf(await nodes.until(call(a, 'memory', 's'))), '{"node":"a"}');
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    const dropped = files(a);
    await nodes.pass(3_000);
    const early = call(b, 'memory', 's');
    await nodes.pass(1_000);
    assert.equal(b.local.calls.length, 0);
    ended.resolve();
    await nodes.until(dropped);
    assert.equal(wordOf(await nodes.until(early)), '{"node":"b"}');
    assert.equal(wordOf(await nodes.until(call(a, 'memory', 's'))), '{"node":"b"}');
    assert.deepEqual(
      b.events.heard.filter((text) => text.startsWith('stateLost')),
      ['stateLost memory s'],
    );
  }));
