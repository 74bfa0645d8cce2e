import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ClusterBench,
  type PlayedNode,
  remoteSpec,
  serverNamed,
  TestExchange,
} from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { type ServerText, serverText } from './foreign-server.ts';
import { statusElsewhere } from './homes.ts';
import { type LostHome, LostHomes } from './lost-homes.ts';
import type { NodeView } from './node-state.ts';
import type { OfferedServer } from './own-offer.ts';

const memory = serverNamed('memory', { transport: remoteSpec });

function named(id: string): NodeView {
  return { id, peer: `peer of ${id}` } as NodeView;
}

function offered(name: string, status: ServerStatus | null = null): OfferedServer {
  const definition: ServerText = serverText(serverNamed(name), true);
  return { definition, digest: name, status, catalogs: 1 };
}

function shown(lost: Iterable<LostHome>): string[] {
  return [...lost].map(({ node, left, offered: { definition } }) => `${definition.name} of ${node}, left: ${left}`);
}

function serversOf({ cluster }: PlayedNode): string[] {
  return cluster.upstreams.servers().map(({ name }) => name);
}

async function bench(run: (bench: ClusterBench) => Promise<void>): Promise<void> {
  const made = new ClusterBench();
  try {
    await run(made);
  } finally {
    await made.dispose();
  }
}

test('what a silent node had is expected for an hour, what one had that left for a minute, and no longer', async () => {
  const clock = new FakeClock();
  let told = 0;
  const lost = new LostHomes({ clock, forgotten: () => told++ });
  lost.lost(named('silent'), [offered('one'), offered('two')], false);
  lost.lost(named('leaver'), [offered('three')], true);
  lost.lost(named('idle'), [], false);
  assert.deepEqual(shown(lost), [
    'one of silent, left: false',
    'two of silent, left: false',
    'three of leaver, left: true',
  ]);
  await clock.advance(59_000);
  assert.equal(shown(lost).length, 3);
  await clock.advance(1_000);
  assert.deepEqual(shown(lost), ['one of silent, left: false', 'two of silent, left: false']);
  assert.equal(told, 1);
  lost.left(named('silent'));
  assert.equal(shown(lost)[0], 'one of silent, left: true');
  await clock.advance(60_000);
  assert.deepEqual(shown(lost), []);
  lost.lost(named('silent'), [offered('one')], false);
  await clock.advance(3_599_000);
  assert.equal(shown(lost).length, 1);
  await clock.advance(1_000);
  assert.deepEqual([shown(lost), told], [[], 3]);
});

test('of more lost nodes than are kept, the one lost first is forgotten; what is closed waits for nothing', () => {
  const clock = new FakeClock();
  const lost = new LostHomes({ clock, forgotten: () => assert.fail('nobody is to be told') });
  for (let i = 0; i < 300; i++) lost.lost(named(`n${i}`), [offered(`s${i}`)], false);
  const left = shown(lost);
  assert.deepEqual([left.length, left[0]], [256, 's44 of n44, left: false']);
  lost.close();
  assert.deepEqual([shown(lost), clock.pending], [[], 0]);
});

test('a server whose only node is not heard of is known and cannot be reached, and nobody is told of another list', () =>
  bench(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [memory]);
    let changes = 0;
    a.cluster.onServersChanged = () => changes++;
    b.cut();
    await nodes.pass(3_000);
    assert.deepEqual(
      a.cluster.nodes().map(({ id }) => id),
      ['a'],
    );
    assert.deepEqual([serversOf(a), changes], [['memory'], 0]);
    const exchange = new TestExchange();
    const outcome = await nodes.until(a.cluster.upstreams.call('memory', exchange.request, exchange));
    assert.ok(outcome.kind === 'failure');
    assert.equal(outcome.error.outcome, 'NOT_SENT');
    assert.match(outcome.error.message, /no node serves memory: node b, which has it, is not heard of/);
    const soon = new TestExchange();
    const before = nodes.clock.now();
    await nodes.until(a.cluster.upstreams.call('memory', soon.request, soon));
    assert.ok(nodes.clock.now() - before <= 50, 'nobody waits for who has been gone for long');
    await assert.rejects(a.cluster.upstreams.restart('memory'), /node b, which has it, is not heard of/);
    b.restore();
    await nodes.pass(2_000);
    const again = new TestExchange();
    assert.equal((await nodes.until(a.cluster.upstreams.call('memory', again.request, again))).kind, 'answer');
    assert.equal(changes, 0);
  }));

test('who is back without a server has dropped it; so has, after a minute, who has left', () =>
  bench(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [memory]);
    const c = await nodes.join('c', [serverNamed('files', { transport: remoteSpec })]);
    assert.deepEqual(serversOf(a), ['files', 'memory']);
    b.cut();
    await nodes.until(c.cluster.close());
    await nodes.pass(2_000);
    assert.deepEqual(serversOf(a), ['files', 'memory']);
    await nodes.join('b', []);
    assert.deepEqual(serversOf(a), ['files']);
    let changes = 0;
    a.cluster.onServersChanged = () => changes++;
    await nodes.pass(60_000);
    assert.deepEqual([serversOf(a), changes], [[], 1]);
  }));

test('what other nodes have is what they say it is, whatever a lost one said', () =>
  bench(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [memory]);
    await nodes.join('c', [memory]);
    b.cut();
    await nodes.pass(3_000);
    await nodes.join('d', [serverNamed('memory', { transport: remoteSpec, timeoutMs: 5, connectionDigest: 'other' })]);
    assert.deepEqual(a.cluster.conflicts, [{ server: 'memory', sides: [['c'], ['d']] }]);
    const exchange = new TestExchange();
    const outcome = await nodes.until(a.cluster.upstreams.call('memory', exchange.request, exchange));
    assert.equal(outcome.kind === 'answer' && outcome.message.body.toString(), '{"node":"c"}');
  }));

test('the status of a lost server is what was said last, less what can no longer be so', () => {
  const status = {
    name: 'memory',
    state: 'running',
    health: 'healthy',
    toolCount: 3,
    initialized: true,
    connections: [{}],
  } as unknown as ServerStatus;
  const of = (left: boolean): ServerStatus => {
    const lost: LostHome = { node: 'b', left, at: 0, offered: offered('memory', status) };
    return statusElsewhere({ server: memory, process: false, here: false, elsewhere: [], lost })!;
  };
  const { state, health, toolCount, initialized, connections, reason } = of(false);
  assert.deepEqual(
    { state, health, toolCount, initialized, connections },
    { state: 'unreachable', health: 'unhealthy', toolCount: 3, initialized: false, connections: [] },
  );
  assert.match(reason!, /node b, which has it, is not heard of/);
  assert.match(of(true).reason!, /node b, which has it, has left: look after/);
});
