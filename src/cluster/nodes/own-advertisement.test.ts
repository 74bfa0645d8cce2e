import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClusterBench, onNodes, serverNamed } from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { packFrame } from '../frames/frame.ts';
import { type AdvertisedServer, type Advertisement, advertisedText, changeOf, ReceivedServer } from './advertised.ts';
import { advertisementIn } from './advertisements.ts';

const web = serverNamed('web');

function running(state: ServerStatus['state'], more: Partial<ServerStatus> = {}): ServerStatus {
  return { name: 'web', state, restarts: 0, lastExit: null, ...more } as ServerStatus;
}

/** The messages that cross the bus of the bench under this subject. */
function overhear(bench: ClusterBench, subject: string): Buffer[] {
  const heard: Buffer[] = [];
  bench.hub.open().subscribe(subject, ({ payload }) => void heard.push(payload));
  return heard;
}

test('a change of a server’s status is one small message for all nodes, and causes no calls between them', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [web, serverNamed('other')]);
    const [b, c] = [await nodes.join('b', []), await nodes.join('c', [web])];
    const says = (status: ServerStatus): void => {
      a.local.states.set('web', status);
      a.cluster.events.statusChanged('web', status);
    };
    says(running('running'));
    await nodes.pass(1_500);
    const [published, calls] = [overhear(nodes, 'trunkline.offered.*'), overhear(nodes, 'trunkline.call.*')];
    // A restart that ends before the message is due.
    for (const state of ['disconnected', 'starting', 'running'] as const) says(running(state, { restarts: 1 }));
    await nodes.pass(1_500);
    assert.equal(published.length, 1);
    assert.ok(published[0]!.length < 300, `${published[0]!.length} bytes`);
    assert.equal(calls.length, 0);
    assert.equal(b.cluster.upstreams.status('web')?.restarts, 1);
    // Calls change these members; such changes are not published.
    const pool = { active: 1, idle: 0, closed: 0 };
    says(running('running', { restarts: 1, pool, replicas: [{ inFlight: 1 }] as never }));
    await nodes.pass(1_500);
    assert.equal(published.length, 1);
    // A state that decides where calls go is published at once.
    says(running('failed', { restarts: 1 }));
    await nodes.pass(100);
    assert.equal(published.length, 2);
    for (const { cluster } of [b, c]) assert.equal(cluster.known.instances('web').includes(a.bus.peer), true);
    assert.equal(b.cluster.upstreams.state('web'), 'failed');
  }));

test('a node that starts many servers publishes their states once a second, and one that fails later at once', () =>
  onNodes(async (nodes) => {
    const names = Array.from({ length: 40 }, (_, n) => `web-${n}`);
    const a = await nodes.join(
      'a',
      names.map((name) => serverNamed(name)),
    );
    const b = await nodes.join('b', []);
    await nodes.pass(2_000);
    const published = overhear(nodes, 'trunkline.offered.*');
    const says = (name: string, status: ServerStatus): void => {
      a.local.states.set(name, status);
      a.cluster.events.statusChanged(name, status);
    };
    for (const [i, name] of names.entries()) {
      says(name, running('running'));
      if (i % 10 === 9) await nodes.pass(100);
    }
    await nodes.pass(1_000);
    assert.equal(published.length, 2, 'the first ten after 50 ms, and the others a second later');
    assert.equal(b.cluster.upstreams.state('web-39'), 'running');
    await nodes.pass(1_000);
    says('web-3', running('failed'));
    await nodes.pass(100);
    assert.equal(b.cluster.upstreams.state('web-3'), 'failed');
  }));

test('a node that missed a change reads the changes since its version; a node without a version reads everything', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [web, serverNamed('other')]);
    const b = await nodes.join('b', []);
    await nodes.pass(1_000);
    const ask = async (
      request: object,
    ): Promise<Omit<Advertisement, 'servers'> & { servers: readonly AdvertisedServer[] }> => {
      const call = b.bus.call('trunkline.offer', packFrame(request), { to: a.bus.peer, deadlineMs: 1_000 });
      const outcome = await nodes.until(call.outcome);
      assert.equal(outcome.kind, 'result');
      const { servers, ...rest } = advertisementIn(outcome.kind === 'result' ? outcome.payload : Buffer.alloc(0));
      return { ...rest, servers: servers as AdvertisedServer[] };
    };
    const { version, servers } = await ask({});
    assert.deepEqual(servers.map(({ definition }) => definition.name).sort(), ['other', 'web']);
    const unchanged = await ask({ since: version });
    await a.cluster.apply(new Map([['web', serverNamed('web', { timeoutMs: 1 })]]));
    // With `fresh: false`, changes that are not published yet are left out.
    assert.deepEqual(await ask({ since: version, deflate: true, fresh: false }), { ...unchanged, since: version });
    const since = await ask({ since: version, deflate: true });
    assert.deepEqual(
      [since.since, since.servers.map(({ definition }) => definition.timeoutMs), since.removed],
      [version, [1], ['other']],
    );
    const texts = await ask({ since: version, deflate: true, texts: true });
    assert.deepEqual(texts, { ...since, servers: since.servers.map(advertisedText) });
    assert.deepEqual((await ask({ since: since.version })).servers, []);
    // A request with a version that this node never had gets everything.
    assert.equal((await ask({ since: 99 })).since, undefined);
    // A request without a version also gets changes that are not published yet.
    await a.cluster.apply(new Map([['late', serverNamed('late')]]));
    const late = await ask({ deflate: true, fresh: false });
    assert.deepEqual(
      late.servers.map(({ definition }) => definition.name),
      ['late'],
    );
    // A node that notices a gap in the published versions asks for the changes.
    const published = Buffer.concat(packFrame({ version: since.version + 7, changed: [], removed: [] }));
    a.bus.publish(`trunkline.offered.${a.bus.peer}`, published);
    const asked = overhear(nodes, `trunkline.call.${a.bus.peer}`);
    await nodes.pass(50);
    assert.ok(asked.length > 0);
  }));

test('changed members update the earlier record; a removed member or other definition needs the whole record', () => {
  const before = {
    definition: { name: 'web' },
    digests: ['d'],
    catalogs: 1,
  } as unknown as AdvertisedServer;
  const was = { ...before, status: running('running') };
  const now: AdvertisedServer = { ...was, changes: 2, status: running('failed', { restarts: 3 }) };
  const change = changeOf(was, now);
  assert.ok(change !== null && 'members' in change);
  for (const sent of [structuredClone(was), advertisedText(was)]) {
    const applied = new ReceivedServer(was, sent);
    applied.apply(change.members);
    assert.deepEqual(advertisedText({ ...applied, status: applied.status }), {
      ...advertisedText(now),
      lists: undefined,
      own: undefined,
    });
  }
  assert.deepEqual({ ...change }, { name: 'web', members: { changes: 2, status: { state: 'failed', restarts: 3 } } });
  assert.equal(changeOf(was, structuredClone(was)), null);
  assert.ok('members' in changeOf({ ...was, status: null }, now)!, 'the status of a server that starts');
  for (const other of [was, { ...now, status: null }, { ...now, digests: ['e'] }]) {
    assert.deepEqual(changeOf(now, other), { server: other });
  }
});

test('a node that joins has the lists of servers that only other nodes have, before a client asks', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [web]);
    a.local.catalogs.set('web', serverCatalog('web', { tools: [tool('one'), tool('two')] }));
    a.cluster.events.catalogChanged('web', 'x', ['tools']);
    await nodes.pass(500);
    const joining = nodes.join('b', []);
    const { cluster } = nodes.nodes.at(-1)!;
    // The node starts its own servers after this.
    const joined = cluster.joined(3_000).then(() => {
      assert.equal(cluster.notReady, null);
      const client = { ...clientOf('s1'), fingerprint: 'never seen' };
      assert.equal(cluster.upstreams.knownCatalog('web', client), null);
      const tools = cluster.upstreams.knownCatalog('web', client, true)?.lists.tools.items.map(({ key }) => key);
      assert.deepEqual(tools, ['one', 'two']);
    });
    await Promise.all([joining, joined]);
  }));

test('a node that cannot give its catalogs at once does not keep another from being ready, and gives them to a client', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [web]);
    a.local.catalogs.set('web', serverCatalog('web', { tools: [tool('one')] }));
    const known = a.local.knownCatalog.bind(a.local);
    a.local.knownCatalog = (server, client, orOthers) => {
      const catalog = known(server, client, orOthers);
      // The catalog cannot be encoded for another node.
      return catalog === null || orOthers !== true ? catalog : { ...catalog, handshake: null as never };
    };
    a.cluster.events.catalogChanged('web', 'x', ['tools']);
    await nodes.pass(500);
    const b = await nodes.join('b', []);
    await nodes.pass(6_000);
    assert.equal(b.cluster.notReady, null);
    const read = await nodes.until(b.cluster.upstreams.catalog('web', clientOf('s1'), 100));
    assert.deepEqual(
      read?.lists.tools.items.map(({ key }) => key),
      ['one'],
    );
  }));

test('a node that starts shows the lists of others until it has listed the server itself, and reads none later', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [web, serverNamed('late')]);
    a.local.catalogs.set('web', serverCatalog('web', { tools: [tool('theirs')] }));
    a.cluster.events.catalogChanged('web', 'x', ['tools']);
    await nodes.pass(500);
    const asked = overhear(nodes, `trunkline.call.${a.bus.peer}`);
    const b = await nodes.join('b', [web, serverNamed('late')]);
    // No probe asks whether the node is ready.
    await nodes.pass(5_000);
    const { upstreams } = b.cluster;
    const shown = (server: string): readonly string[] | undefined =>
      upstreams.knownCatalog(server, clientOf('s1'), true)?.lists.tools.items.map(({ key }) => key);
    assert.deepEqual(shown('web'), ['theirs']);
    assert.equal(shown('late'), undefined);
    b.local.catalogs.set('web', serverCatalog('web', { tools: [tool('own')] }));
    b.cluster.events.catalogChanged('web', 'x', ['tools']);
    assert.deepEqual(shown('web'), ['own']);
    const before = asked.length;
    a.local.catalogs.set('late', serverCatalog('late', { tools: [tool('theirs')] }));
    for (const server of ['web', 'late']) a.cluster.events.catalogChanged(server, 'x', ['tools']);
    await nodes.pass(2_000);
    assert.equal(asked.length, before);
    assert.equal(shown('late'), undefined);
  }));
