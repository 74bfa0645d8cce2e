import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  onNodes,
  type PlayedNode,
  remoteSpec,
  serverNamed,
  TestExchange,
} from '../../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { clientOf, RecordedEvents } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import type { Server } from '../../model/server.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { Logger } from '../../telemetry/logger.ts';
import { PROTOCOL, packFrame } from '../frames/frame.ts';
import type { AdvertisedServer } from './advertised.ts';
import { type ServerText, serverText } from './foreign-server.ts';
import { statusElsewhere } from './instances.ts';
import { KnownServers } from './known-servers.ts';
import { type LostInstance, LostInstances, whyLost } from './lost-instances.ts';
import type { NodeView } from './node-state.ts';
import type { OwnAdvertisement } from './own-advertisement.ts';

const memory = serverNamed('memory', { transport: remoteSpec });

function named(id: string, startedAt = 1): NodeView {
  return { id, peer: `${id} of ${startedAt}`, startedAt } as NodeView;
}

function advertised(name: string, status: ServerStatus | null = null, more: Partial<Server> = {}): AdvertisedServer {
  const definition: ServerText = serverText(serverNamed(name, more), true);
  const digest = `${name} ${more.timeoutMs}`;
  return { definition, digests: [digest], status, catalogs: 1 };
}

async function callOf(bench: ClusterBench, { cluster }: PlayedNode, server = 'memory'): Promise<string> {
  const exchange = new TestExchange();
  const outcome = await bench.until(cluster.upstreams.call(server, exchange.request, exchange));
  return outcome.kind === 'answer'
    ? outcome.message.body.toString()
    : `${outcome.error.outcome} ${outcome.error.message}`;
}

function byName(...servers: AdvertisedServer[]): ReadonlyMap<string, AdvertisedServer> {
  return new Map(servers.map((server) => [server.definition.name, server]));
}

function instances(lost: LostInstances): LostInstance[] {
  return [...lost.servers()].flatMap((server) => lost.of(server));
}

function shown(lost: LostInstances): string[] {
  return instances(lost).map(
    ({ node, left, advertised: { definition } }) => `${definition.name} of ${node}, left: ${left}`,
  );
}

function serversOf({ cluster }: PlayedNode): string[] {
  return cluster.upstreams.servers().map(({ name }) => name);
}

test('servers of a silent node are expected for an hour, of one that left for ten minutes, and no longer', async () => {
  const clock = new FakeClock();
  const since = clock.now();
  let reported = 0;
  const lost = new LostInstances(clock, { serversChanged: () => reported++ });
  lost.add(named('silent'), byName(advertised('one'), advertised('two')), false);
  lost.add(named('leaver'), byName(advertised('three')), true);
  lost.add(named('idle'), byName(), false);
  assert.deepEqual(shown(lost), [
    'one of silent, left: false',
    'two of silent, left: false',
    'three of leaver, left: true',
  ]);
  await clock.advance(599_000);
  assert.equal(shown(lost).length, 3);
  await clock.advance(1_000);
  assert.deepEqual([shown(lost), reported], [['one of silent, left: false', 'two of silent, left: false'], 1]);
  lost.leaves(named('silent'));
  lost.leaves(named('silent'));
  assert.deepEqual([shown(lost)[0], reported], ['one of silent, left: true', 2]);
  assert.equal(instances(lost)[0]!.awaitedSince, since, 'it has been gone since then');
  await clock.advance(600_000);
  assert.deepEqual([shown(lost), reported], [[], 3]);
  lost.add(named('silent'), byName(advertised('one')), false);
  await clock.advance(3_599_000);
  assert.equal(shown(lost).length, 1);
  await clock.advance(1_000);
  assert.deepEqual([shown(lost), reported], [[], 4]);
});

test('a node that was back too briefly to advertise removes nothing; a later process of it does', () => {
  const clock = new FakeClock();
  const lost = new LostInstances(clock, { serversChanged: () => {} });
  lost.add(named('b', 5), byName(advertised('one')), false);
  lost.add(named('b', 5), null, false);
  lost.add(named('b', 6), null, false);
  assert.deepEqual(shown(lost), ['one of b, left: false']);
  lost.returned(named('b', 4));
  assert.equal(shown(lost).length, 1, 'that is another node of the same name');
  lost.add(named('b', 7), null, true);
  assert.deepEqual(shown(lost), ['one of b, left: true']);
  lost.add(named('b', 8), byName(advertised('two')), false);
  assert.deepEqual(shown(lost), ['two of b, left: false']);
  lost.returned(named('b', 9));
});

test('servers that present nodes dropped, and temporary ones, are not expected', () => {
  const clock = new FakeClock();
  const lost = new LostInstances(clock, { serversChanged: () => {} });
  lost.add(
    named('a'),
    byName(advertised('one'), advertised('two'), advertised('while', null, { temporary: true })),
    false,
  );
  lost.add(named('b'), byName(advertised('one')), false);
  lost.drop(new Set(['one']));
  assert.deepEqual(shown(lost), ['two of a, left: false']);
  lost.drop(new Set(['two']));
  assert.equal(clock.pending, 0);
});

test('however many nodes are lost within an hour, the servers of each are known for that hour', async () => {
  const clock = new FakeClock();
  const lost = new LostInstances(clock, { serversChanged: () => {} });
  for (let i = 0; i < 1_000; i++) {
    lost.add(named(`n${i}`), byName(advertised(`s${i}`)), false);
    await clock.advance(1_000);
  }
  assert.deepEqual([shown(lost).length, shown(lost)[0]], [1_000, 's0 of n0, left: false']);
  await clock.advance(2_600_000);
  assert.deepEqual([shown(lost).length, shown(lost)[0]], [999, 's1 of n1, left: false']);
  await clock.advance(1_000_000);
  assert.deepEqual([shown(lost), clock.pending], [[], 0]);
});

test('a server whose only node is silent is known and unreachable, and no client gets another list', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [memory]);
    let changes = 0;
    a.cluster.listen({ serversChanged: () => void changes++ });
    b.cut();
    await nodes.pass(3_000);
    assert.deepEqual(
      a.cluster.known.nodes().map(({ id }) => id),
      ['a'],
    );
    assert.deepEqual([serversOf(a), changes], [['memory'], 0]);
    assert.equal(await callOf(nodes, a), 'NOT_SENT no node serves memory: node b, which has it, does not answer');
    const before = nodes.clock.now();
    await callOf(nodes, a);
    assert.ok(nodes.clock.now() - before <= 50, 'no call waits for a node that has been gone for long');
    await assert.rejects(a.cluster.upstreams.restart('memory'), /node b, which has it, does not answer/);
    a.events.instancesGainedOf.length = 0;
    b.restore();
    await nodes.pass(2_000);
    assert.equal(await callOf(nodes, a), '{"node":"b"}');
    assert.deepEqual([changes, a.events.instancesGainedOf], [0, ['memory']]);
  }));

test('a node without a connection does not wait for others, and gives that as the reason', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    await nodes.join('b', [memory]);
    a.cut();
    await nodes.pass(1_700);
    const before = nodes.clock.now();
    assert.match(await callOf(nodes, a), /^NOT_SENT no node serves memory: this node does not reach NATS/);
    assert.ok(nodes.clock.now() - before <= 50);
  }));

test('a node that was cut off waits for the others as soon as it is back, however long that was', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    await nodes.join('b', [memory]);
    a.cut();
    await nodes.pass(60_000);
    const early = callOf(nodes, a);
    assert.match(await early, /^NOT_SENT/);
    a.restore();
    assert.equal(await callOf(nodes, a), '{"node":"b"}');
  }));

test('a node that sends heartbeats again is expected until it has advertised', () => {
  const clock = new FakeClock();
  let others: [NodeView, ReadonlyMap<string, AdvertisedServer> | null][] = [];
  const gained: string[] = [];
  const lostInstances = new LostInstances(clock, { serversChanged: () => {} });
  const events = new RecordedEvents();
  events.instancesGained = (servers) => void gained.push(...servers);
  const known = new KnownServers(
    { logger: Logger.silent(), events },
    { servers: [], server: () => undefined } as unknown as OwnAdvertisement,
    {
      self: named('a') as NodeView,
      others: () => others.map(([node]) => node),
      get: (peer) => others.find(([node]) => node.peer === peer)?.[0] ?? null,
    },
    { of: (peer) => others.find(([node]) => node.peer === peer)?.[1] ?? null },
    lostInstances,
  );
  const waited = (): number | null => {
    known.update();
    const lost = known.place('one')?.lost ?? null;
    return lost === null ? null : clock.now() - lost.awaitedSince;
  };
  lostInstances.add(named('b', 5), byName(advertised('one')), false);
  lostInstances.add(named('c', 5), byName(advertised('two')), false);
  clock.skip(60_000);
  assert.equal(waited(), 60_000);
  others = [[named('b', 6), null]];
  assert.equal(waited(), 0);
  const { lost } = known.place('one')!;
  assert.equal(whyLost(lost!, true), 'node b, which had it, is there and has not said yet what it has');
  clock.skip(7_000);
  assert.equal(waited(), 7_000, 'further updates do not start the wait anew while the node has not advertised');
  lostInstances.add(named('b', 6), null, false);
  assert.equal(waited(), 0, 'it was gone again, and is there again');
  assert.equal(clock.now() - known.place('two')!.lost!.awaitedSince, 67_000);
  others = [[named('b', 6), byName(advertised('one'))]];
  known.changed(['one'], others[0]![0].peer);
  assert.deepEqual([waited(), gained], [null, ['one']]);
  lostInstances.awaitAllAgain();
  known.update();
  assert.equal(known.place('two')!.lost!.awaitedSince, clock.now());
});

test('a node that left, and sends heartbeats again just before its ten minutes are over, has ten more to advertise', async () => {
  const clock = new FakeClock();
  const lost = new LostInstances(clock, { serversChanged: () => {} });
  lost.add(named('b', 5), byName(advertised('one')), true);
  await clock.advance(599_500);
  lost.awaitAgain(named('b', 6));
  await clock.advance(30_000);
  lost.awaitAgain(named('b', 6));
  await clock.advance(569_900);
  assert.equal(shown(lost).length, 1);
  await clock.advance(100);
  assert.equal(shown(lost).length, 0);
});

test('a server is dropped when its node is back without it, or ten minutes after its node left', () =>
  onNodes(async (nodes) => {
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
    a.cluster.listen({ serversChanged: () => void changes++ });
    await nodes.pass(600_000);
    assert.deepEqual([serversOf(a), changes], [[], 1]);
  }));

test('a node that fell silent and then reports its end has left', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [memory]);
    b.cut();
    await nodes.pass(2_000);
    assert.match(await callOf(nodes, a), /node b, which has it, does not answer/);
    await nodes.until(b.cluster.close());
    b.restore();
    const { peer } = b.bus;
    const view: NodeView = {
      id: 'b',
      peer,
      state: 'draining',
      protocols: [PROTOCOL, PROTOCOL],
      version: '0.0.0',
      epoch: '',
      offer: 1,
      load: 0,
      startedAt: nodes.clock.wall(),
    };
    b.bus.publish(`trunkline.node.${peer}`, packFrame({ ...view, leaving: true }));
    await settled();
    assert.match(await callOf(nodes, a), /node b, which has it, has left/);
    await nodes.pass(600_000);
    assert.deepEqual(serversOf(a), []);
  }));

test('a present node may drop a server that a lost node also had', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [memory]);
    const c = await nodes.join('c', [memory]);
    b.cut();
    await nodes.pass(3_000);
    assert.equal(await callOf(nodes, a), '{"node":"c"}');
    await c.cluster.apply(new Map());
    await nodes.pass(2_000);
    assert.deepEqual(serversOf(a), []);
    await a.cluster.apply(new Map([['memory', memory]]));
    await a.cluster.apply(new Map());
    await nodes.pass(2_000);
    assert.deepEqual(serversOf(a), []);
  }));

test('of two lost instances, in either order, the status is that of the one that ran the server', async () => {
  for (const [first, second] of [
    ['b', 'c'],
    ['c', 'b'],
  ] as const) {
    await onNodes(async (nodes) => {
      const a = await nodes.join('a', []);
      const running = { name: 'memory', state: 'running' } as ServerStatus;
      for (const id of [first, second]) {
        const node = await nodes.join(id, [memory]);
        if (id === 'b') node.local.status = () => running as never;
      }
      await nodes.pass(1_000);
      await Promise.all(nodes.nodes.slice(1).map((node) => node.cluster.apply(new Map([['memory', memory]]))));
      await nodes.pass(1_000);
      for (const node of nodes.nodes.slice(1)) node.cut();
      await nodes.pass(3_000);
      assert.match(a.cluster.upstreams.status('memory')?.reason ?? '', /node b, which has it, does not answer/);
      assert.equal(a.cluster.upstreams.statuses().length, 1);
    });
  }
});

test('a new process of a node does not keep the servers of its earlier process', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const old = await nodes.join('b', [memory]);
    const b = await nodes.join('b', []);
    await nodes.until(old.cluster.close());
    await nodes.pass(2_000);
    assert.deepEqual([serversOf(a), serversOf(b)], [[], []]);
  }));

test('known lists stay as long as the server is expected', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [memory]);
    const client = clientOf(null);
    b.local.catalogs.set('memory', serverCatalog('memory', { tools: [tool('one')] }));
    assert.ok(await nodes.until(a.cluster.upstreams.catalog('memory', client, 1_000)));
    a.events.heard.length = 0;
    b.cut();
    await nodes.pass(3_000);
    assert.equal(a.cluster.upstreams.knownCatalog('memory', client)?.lists.tools.items[0]?.key, 'one');
    await nodes.join('b', []);
    assert.equal(a.cluster.upstreams.knownCatalog('memory', client), null);
    assert.deepEqual(a.events.heard, []);
  }));

test('the status of a lost server is the last reported one, without the values that can no longer be true', () => {
  const status = {
    name: 'memory',
    state: 'running',
    health: 'healthy',
    toolCount: 3,
    initialized: true,
    processes: { running: 1, limit: 2 },
    nextRetryAt: 5,
  } as unknown as ServerStatus;
  const of = (left: boolean, reached = true): ServerStatus => {
    const lost: LostInstance = {
      node: 'b',
      left,
      isReturning: false,
      awaitedSince: 0,
      seenAt: 1_000,
      forgottenAt: 3_601_000,
      advertised: advertised('memory', status),
    };
    return statusElsewhere({ server: memory, process: false, here: false, otherInstances: [], lost }, reached)!;
  };
  const { state, health, toolCount, initialized, processes, nextRetryAt, reason } = of(false);
  assert.deepEqual(
    { state, health, toolCount, initialized, processes, nextRetryAt },
    {
      state: 'unreachable',
      health: 'unhealthy',
      toolCount: 3,
      initialized: false,
      processes: null,
      nextRetryAt: null,
    },
  );
  assert.equal(
    reason,
    'node b, which has it, does not answer; it was seen last at 1970-01-01T00:00:01Z: check that node and its connection to NATS. Otherwise this server is forgotten at 1970-01-01T01:00:01Z',
  );
  assert.match(of(true).reason!, /node b, which has it, has left; it was seen last at .*: start it again/);
  assert.match(of(true, false).reason!, /this node does not reach NATS.*from here/);
});
