import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Seeded } from '../../../test/chaos/seeded.ts';
import {
  type ClusterBench,
  onNodes,
  type PlayedNode,
  serverNamed,
  TestExchange,
} from '../../../test/support/cluster-bench.ts';
import { Leaderless } from '../../../test/support/leaderless.ts';
import type { Outcome } from '../../model/outcome.ts';
import { LEASE_MS, LEASES, LONGEST_MS, STOP_MS, TAKEOVER_MS } from './lease-record.ts';

const SERVER = serverNamed('memory', { isolation: 'session' });

async function three(bench: ClusterBench): Promise<[Leaderless, PlayedNode, PlayedNode, PlayedNode]> {
  const store = new Leaderless(bench);
  const nodes = [
    await store.join('a', [SERVER]),
    await store.join('b', [SERVER]),
    await store.join('c', [SERVER]),
  ] as const;
  await bench.pass(1_000);
  return [store, ...nodes];
}

function call(node: PlayedNode, session: string): Promise<Outcome> {
  return node.cluster.upstreams.call('memory', new TestExchange(session).request, new TestExchange(session));
}

function serves(node: PlayedNode, session: string): boolean {
  return node.cluster.state === 'ready' && node.cluster.owned.some(({ key }) => key === session);
}

test('fault:F28 while the store elects a leader all leases last, and a call that must claim waits for it', () =>
  onNodes(async (bench) => {
    const [store, ...nodes] = await three(bench);
    for (const node of nodes) await bench.until(call(node, node.id));
    store.away = true;
    let answered = false;
    const waiting = call(nodes[0], 'new').then(() => (answered = true));
    await bench.pass(9_000, () => {
      for (const node of nodes) assert.ok(serves(node, node.id));
      assert.equal(answered, false);
    });
    store.away = false;
    await bench.until(waiting, 1_500);
    await bench.pass(20_000, () => {
      for (const node of nodes) assert.ok(serves(node, node.id));
    });
  }));

test('fault:F28 fault:F30 a node that dies with the leader of the store leaves a majority, which goes on and takes over afterwards', () =>
  onNodes(async (bench) => {
    const [store, a, b, c] = await three(bench);
    for (const node of [a, b, c]) await bench.until(call(node, node.id));
    store.away = true;
    c.cut();
    await bench.pass(9_000, () => assert.ok(serves(a, 'a') && serves(b, 'b')));
    assert.equal(c.cluster.state, 'fenced');
    store.unreached.add('c');
    store.away = false;
    await bench.until(call(a, 'c'), TAKEOVER_MS + 500);
    assert.ok(serves(a, 'c'));
  }));

test('fault:F30 the lease of a node that dies between the write of a renewal and its answer ends as soon as any other', () =>
  onNodes(async (bench) => {
    const [store, a, b] = await three(bench);
    await bench.until(call(b, 'b'));
    let diedAt = 0;
    store.wrote = (node, key) => {
      if (node !== 'b' || !key.startsWith('lease.') || diedAt > 0) return;
      diedAt = bench.clock.now();
      b.cut();
      store.unreached.add('b');
    };
    while (diedAt === 0) await bench.pass(50);
    await bench.until(call(a, 'b'));
    assert.ok(serves(a, 'b'));
    const tookMs = bench.clock.now() - diedAt;
    assert.ok(tookMs >= TAKEOVER_MS && tookMs < TAKEOVER_MS + 400, `after ${tookMs} ms`);
  }));

test('fault:F29 a write of a lease that is late changes nothing after a later one', () =>
  onNodes(async (bench) => {
    const store = new Leaderless(bench);
    await store.join('a', [SERVER]);
    let late = false;
    store.delayMs = (node, bucket, part) => {
      if (late || node !== 'a' || bucket !== LEASES || part !== 'readIncarnation') return 0;
      late = true;
      return 1_800;
    };
    const renewals: number[] = [];
    store.wrote = (node, key, value) => {
      if (node === 'a' && key.startsWith('lease.')) renewals.push(JSON.parse(value.toString()).renewal);
    };
    await store.join('b', [SERVER]);
    await bench.pass(4_000);
    assert.ok(late && renewals.length > 4);
    assert.deepEqual(
      renewals,
      renewals.toSorted((a, b) => a - b),
    );
  }));

test('fault:F28 heartbeats prolong no lease beyond its record, and no lease whose witnesses reach the store', () =>
  onNodes(async (bench) => {
    const [store, a, b, c] = await three(bench);
    for (const node of [a, b, c]) await bench.until(call(node, node.id));
    store.unreached.add('a');
    await bench.pass(STOP_MS + 50);
    assert.equal(a.cluster.state, 'fenced');
    await bench.until(call(b, 'a'), TAKEOVER_MS + 500);
    assert.ok(serves(b, 'a'));
    store.unreached.clear();
    await bench.pass(2_000);
    store.away = true;
    await bench.pass(LONGEST_MS - 600, () => assert.ok(serves(b, 'b')));
    await bench.pass(700);
    assert.deepEqual(
      [a, b, c].map(({ cluster }) => cluster.state),
      ['fenced', 'fenced', 'fenced'],
    );
  }));

test('fault:F30 a node that dies while its lease still names a witness that has left is replaced as soon as any other', () =>
  onNodes(async (bench) => {
    const [store, a, b, c] = await three(bench);
    await bench.until(call(b, 'b'));
    store.unreached.add('b');
    await bench.until(c.cluster.close(), 60_000);
    b.cut();
    const diedAt = bench.clock.now();
    await bench.until(call(a, 'b'));
    assert.ok(serves(a, 'b'));
    const tookMs = bench.clock.now() - diedAt;
    assert.ok(tookMs >= STOP_MS && tookMs < TAKEOVER_MS + 700, `after ${tookMs} ms`);
  }));

test('fault:F30 if a majority of the witnesses dies at once, others take over only after the records of the dead expire', () =>
  onNodes(async (bench) => {
    const [store, a, b, c] = await three(bench);
    for (const node of [a, b, c]) await bench.until(call(node, node.id));
    for (const node of [b, c]) {
      node.cut();
      store.unreached.add(node.id);
    }
    let taken = false;
    const calling = (): void => void call(a, 'c').then(() => (taken ||= serves(a, 'c')));
    for (let ms = 0; ms < LEASE_MS - 1_000; ms += 1_000) {
      calling();
      await bench.pass(1_000);
      assert.equal(taken, false, `taken after ${ms}`);
    }
    await bench.pass(1_000);
    calling();
    await bench.pass(1_000);
    assert.ok(taken);
  }));

test('fault:F29 however nodes lose each other, the store and its leader, no session has two owners at any time', async (t) => {
  const seed = Number(process.env['TRUNKLINE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  t.diagnostic(`seed ${seed}`);
  const random = new Seeded(seed);
  const [rounds, steps] = [Number(process.env['TRUNKLINE_ROUNDS'] ?? 4), 25];
  let owners = 0;
  for (let round = 0; round < rounds; round++) {
    await onNodes(async (bench) => {
      const store = new Leaderless(bench);
      let slow = false;
      store.delayMs = () => (slow && random.below(3) === 0 ? random.below(3_000) : 0);
      const nodes: PlayedNode[] = [];
      for (let i = 0; i < 2 + random.below(3); i++) nodes.push(await store.join(`n${i}`, [SERVER]));
      for (let step = 0; step < steps; step++) {
        store.away = random.below(3) === 0;
        slow = random.below(2) === 0;
        if (nodes.length > 2 && random.below(12) === 0) void nodes.pop()!.cluster.close();
        for (const node of nodes) {
          const { id } = node;
          if (random.below(4) === 0) node.cut();
          else node.restore();
          if (random.below(4) === 0) store.unreached.add(id);
          else store.unreached.delete(id);
          for (const session of ['x', 'y']) void call(node, session);
        }
        await bench.pass(random.below(5_000), () => {
          for (const session of ['x', 'y']) {
            const serving = nodes.filter((node) => serves(node, session));
            owners += serving.length;
            assert.ok(serving.length < 2, `round ${round}: ${serving.map(({ id }) => id).join()} serve ${session}`);
          }
        });
      }
      store.away = slow = false;
      store.unreached.clear();
      for (const node of nodes) node.restore();
      await bench.pass(LEASE_MS);
    });
  }
  assert.ok(owners > 0);
});
