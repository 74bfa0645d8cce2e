import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { onNodes, serverNamed } from '../../../test/support/cluster-bench.ts';
import { Leaderless } from '../../../test/support/leaderless.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { serverText } from './foreign-server.ts';
import { KnownServers } from './known-servers.ts';
import type { LostInstance } from './lost-instances.ts';
import { located } from './routing-table.ts';

test('a node knows the servers of other nodes, and which nodes have another definition of a name', () =>
  onNodes(async (nodes) => {
    const own = serverNamed('own');
    const files = serverNamed('files', { description: 'of b and c' });
    const a = await nodes.join('a', [own]);
    for (const id of ['c', 'b']) await nodes.join(id, [own, files]);
    const { known } = a.cluster;
    assert.deepEqual(known.server('files')?.nodes, ['b', 'c']);
    assert.equal(known.server('files')?.server.description, 'of b and c');
    assert.deepEqual([known.server('own'), known.server('nobodys')], [null, null]);
    assert.deepEqual(known.against(files), [], 'the same definition is no conflict');
    assert.deepEqual(known.against(serverNamed('files', { timeoutMs: 1 })), ['b', 'c']);
    assert.deepEqual(known.against(serverNamed('Files', { description: 'of b and c' })), ['b', 'c']);
    assert.deepEqual(known.against(serverNamed('other')), []);
  }));

test('S0.18 the routing table is updated where servers come and go, not where leases change', (t) =>
  onNodes(async (nodes) => {
    const store = new Leaderless(nodes);
    const own = serverNamed('own');
    const [a, b] = [await store.join('a', [own]), await store.join('b', [own])];
    await nodes.pass(3_000);
    const built = mock.method(KnownServers.prototype, 'update').mock;
    t.after(() => built.restore());
    const stateAtA = () => a.cluster.known.nodes().find(({ id }) => id === 'b')!.state;
    store.unreached.add('b');
    await nodes.pass(3_000);
    assert.equal(stateAtA(), 'fenced');
    store.unreached.clear();
    await nodes.pass(3_000);
    assert.equal(stateAtA(), 'ready');
    assert.equal(built.callCount(), 0);
    await b.cluster.apply(new Map([['more', serverNamed('more')]]));
    await nodes.pass(1_000);
    assert.ok(built.callCount() > 0);
    assert.notEqual(a.cluster.known.server('more'), null);
  }));

test('if definitions of lost nodes differ, that of the majority counts, from the node that ran it', () => {
  const running = { state: 'running' } as ServerStatus;
  const instance = (
    node: string,
    timeoutMs: number,
    status: ServerStatus | null,
    awaitedSince: number,
  ): LostInstance => {
    const facts = { node, left: false, isReturning: false, awaitedSince, seenAt: 0, forgottenAt: 0 };
    const definition = serverText(serverNamed('memory', { timeoutMs }), true);
    const digest = `${timeoutMs}`;
    return { ...facts, advertised: { definition, digests: [digest], status, catalogs: 1 } };
  };
  const lost = [instance('b', 1, null, 7), instance('c', 1, running, 3), instance('d', 2, running, 9)];
  for (const order of [lost, lost.toReversed()]) {
    const { place, conflict } = located('memory', 'a', undefined, [], () => order);
    const { node, awaitedSince } = place!.lost!;
    assert.deepEqual([node, place!.server.timeoutMs, conflict], ['c', 1, null]);
    assert.equal(awaitedSince, 7, 'the latest of the majority');
  }
});
