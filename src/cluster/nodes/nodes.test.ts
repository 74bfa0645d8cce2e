import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench, onNodes, SECRET, serverNamed } from '../../../test/support/cluster-bench.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import { SignedBus } from '../../bus/signed-bus.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../../telemetry/logger.ts';
import { OLDEST_PROTOCOL, PROTOCOL, packFrame, unpackFrame } from '../frames/frame.ts';
import { type NodeView, protocolsOverlap } from './node-state.ts';

/** A participant of the bus whose heartbeats the test defines. */
function stranger(bench: ClusterBench, protocols: readonly [number, number]) {
  const bus = new SignedBus({
    wire: bench.hub.open(),
    keys: new KeyRing([SECRET]),
    clock: bench.clock,
    random: systemRandom,
    logger: Logger.silent(),
  });
  const view: NodeView = {
    id: 'x',
    peer: bus.peer,
    state: 'ready',
    protocols,
    version: '9.9.9',
    epoch: '1.1',
    offer: 1,
    load: 0,
    startedAt: 1,
  };
  return { bus, beat: () => bus.publish(`trunkline.node.${bus.peer}`, packFrame(view)) };
}

test('nodes of protocol N and N−1 work together, and others are left out', async () => {
  assert.ok(protocolsOverlap([1, 2], [2, 3]));
  assert.ok(!protocolsOverlap([1, 2], [3, 4]));
  const bench = new ClusterBench();
  const a = await bench.join('a', [serverNamed('memory')]);
  const next = stranger(bench, [PROTOCOL, PROTOCOL + 1]);
  const far = stranger(bench, [PROTOCOL + 1, PROTOCOL + 2]);
  next.beat();
  far.beat();
  await settled();
  const seen = a.cluster.known.nodes().map(({ peer }) => peer);
  assert.ok(seen.includes(next.bus.peer));
  assert.ok(!seen.includes(far.bus.peer));
  await bench.dispose();
  await Promise.all([next.bus.close(), far.bus.close()]);
});

test('a node is gone after three missed heartbeats, and not while this process itself was frozen', async () => {
  const bench = new ClusterBench();
  const a = await bench.join('a', []);
  const b = await bench.join('b', []);
  const sees = () => a.cluster.known.nodes().some(({ id }) => id === 'b');
  // The check in between runs late: no heartbeat can have arrived.
  bench.clock.skip(4_000);
  await bench.pass(200);
  assert.ok(sees());
  b.cut();
  await bench.pass(900);
  assert.ok(sees());
  await bench.pass(800);
  assert.ok(!sees());
  await bench.dispose();
});

test('fault:F31 heartbeats that arrive as a node wakes count from then, not from later', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', []), await nodes.join('b', [])];
    const sees = () => a.cluster.known.nodes().some(({ id }) => id === 'b');
    nodes.clock.skip(30_000);
    b.cluster.peers.sendHeartbeat();
    await settled();
    b.cut();
    await nodes.pass(900);
    assert.ok(sees());
    await nodes.pass(800);
    assert.ok(!sees());
  }));

test('a node lost without leaving is listed for an hour, or until it is back', () =>
  onNodes(async (nodes) => {
    const [a, b, c] = [await nodes.join('a', []), await nodes.join('b', []), await nodes.join('c', [])];
    const silent = (): string[] => [...a.cluster.peers.silent.keys()];
    b.cut();
    c.cluster.peers.close();
    const cutAt = nodes.clock.wall();
    await nodes.pass(3_000);
    assert.deepEqual(silent(), ['b'], 'c has left');
    const lostAfter = a.cluster.peers.silent.get('b')! - cutAt;
    assert.ok(lostAfter >= 900 && lostAfter <= 1_700, `lost after ${lostAfter} ms`);
    b.restore();
    await nodes.pass(1_000);
    assert.deepEqual(silent(), []);
    b.cut();
    await nodes.pass(3_000);
    assert.deepEqual(silent(), ['b']);
    nodes.clock.skip(3_600_000);
    await nodes.pass(200);
    assert.deepEqual(silent(), []);
    const d = await nodes.join('d', []);
    d.cluster.drain();
    await nodes.pass(1_000);
    d.cut();
    await nodes.pass(3_000);
    assert.deepEqual(silent(), [], 'd was draining: it was about to leave');
  }));

test('fault:F28 a node is gone for certain only where the bus has carried heartbeats meanwhile', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', []), await nodes.join('b', [])];
    const { peer } = b.bus;
    const sees = (): boolean => a.cluster.peers.get(peer) !== null;
    const isGone = (): boolean => a.cluster.peers.isGone(peer);
    await nodes.pass(2_000);
    assert.ok(sees() && !isGone());
    a.cut();
    await nodes.pass(3_000, () => assert.ok(!isGone(), 'this node is without the bus'));
    assert.ok(!sees());
    a.restore();
    await nodes.pass(2_000, () => assert.ok(!isGone(), 'the bus is back'));
    assert.ok(sees());
    b.cut();
    await nodes.pass(1_000);
    assert.ok(!isGone());
    await nodes.pass(1_000);
    assert.ok(isGone() && !a.cluster.peers.isGone(a.bus.peer));
    b.restore();
    await nodes.pass(1_000);
    assert.ok(!isGone(), 'its heartbeats arrive again');
  }));

test('additions of a newer node to a message are ignored; an invalid message is refused', () => {
  const packed = Buffer.concat(packFrame({ kind: 'later', more: { deep: 1 } }, [Buffer.from('bytes')]));
  const { header, pieces } = unpackFrame<{ kind: string }>(packed);
  assert.equal(header.kind, 'later');
  assert.equal(pieces[0]!.toString(), 'bytes');
  for (const cut of [0, 3, 10, packed.length - 1]) assert.throws(() => unpackFrame(packed.subarray(0, cut)));
  assert.throws(() => unpackFrame(Buffer.concat([Buffer.from([0, 0, 0, 2]), Buffer.from('{}')])), /sizes/);
  for (const protocol of [OLDEST_PROTOCOL - 1, PROTOCOL + 1]) {
    assert.throws(() => unpackFrame(Buffer.concat(packFrame({}, [], protocol))), /of protocol \d+, and this node/);
  }
});

test('two nodes of one name cause a warning, agree on the definition, and can be drained one by one', () =>
  onNodes(async (nodes) => {
    const lines: string[] = [];
    const logger = new Logger({ level: 'info', write: (line) => lines.push(line) });
    const [one, other] = [1_000, 2_000].map((timeoutMs) => serverNamed('memory', { timeoutMs }));
    const twins = [await nodes.join('host', [one!], { logger }), await nodes.join('host', [other!])] as const;
    await nodes.pass(1_000);
    assert.match(lines.join(''), /"event":"node_name_taken","node":"host",.*set cluster\.node/);
    const third = await nodes.join('third', []);
    const meant = [...twins, third].map(({ cluster }) => cluster.upstreams.servers()[0]!.timeoutMs);
    assert.equal(new Set(meant).size, 1, String(meant));
    const asked: string[] = [];
    for (const { cluster, bus } of twins) cluster.listen({ drainAsked: () => void asked.push(bus.peer) });
    for (const { bus } of twins) assert.equal(await nodes.until(third.cluster.drainNode(bus.peer)), true);
    assert.equal(await twins[0].cluster.drainNode(twins[0].bus.peer), true);
    assert.deepEqual(asked, [twins[0].bus.peer, twins[1].bus.peer, twins[0].bus.peer]);
  }));

test('a node that finds many others at once sends one view for all of them, at its next check', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const others = Array.from({ length: 20 }, () => stranger(nodes, [PROTOCOL, PROTOCOL]));
    let views = 0;
    others[0]!.bus.subscribe(`trunkline.node.${a.bus.peer}`, () => void views++);
    for (const { beat } of others) beat();
    await nodes.pass(100);
    assert.deepEqual([a.cluster.known.nodes().length, views], [21, 1]);
    await Promise.all(others.map(({ bus }) => bus.close()));
  }));

test('a node that joins is announced as joining and then as ready, never as fenced', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const states: string[] = [];
    a.bus.subscribe('trunkline.node.*', (payload, from) => {
      if (from !== a.bus.peer) states.push(unpackFrame<NodeView>(payload).header.state);
    });
    await nodes.join('b', []);
    assert.deepEqual([...new Set(states)], ['joining', 'ready']);
  }));
