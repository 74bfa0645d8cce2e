import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClusterBench, onNodes, type PlayedNode } from '../../../test/support/cluster-bench.ts';
import type { MemoryLevel } from '../../model/pooled-buffers.ts';

interface Laden {
  readonly memory: { level: MemoryLevel };
  readonly node: PlayedNode;
  readonly ready: boolean;
}

async function laden(bench: ClusterBench, id: string): Promise<Laden> {
  const memory: { level: MemoryLevel } = { level: 'ample' };
  const node = await bench.join(id, [], { memory });
  return {
    memory,
    node,
    get ready() {
      return node.cluster.notReady === null;
    },
  };
}

const OVERLOADED = /^overloaded: the memory of this node is short/;

test('fault:F40 a node whose memory is spent leaves its requests to the others, and is ready 5 s after it is below 90 %', () =>
  onNodes(async (bench) => {
    const [a, b, c] = [await laden(bench, 'a'), await laden(bench, 'b'), await laden(bench, 'c')];
    a.memory.level = 'scarce';
    await bench.pass(5_000, () => assert.ok(a.ready, 'it takes small requests'));
    a.memory.level = 'spent';
    await bench.pass(1_500, () => assert.ok(a.ready, 'the others may become overloaded at the same time'));
    assert.match(a.node.cluster.degraded.join(), OVERLOADED);
    await bench.pass(1_000);
    assert.match(a.node.cluster.notReady ?? '', OVERLOADED);
    assert.equal(a.node.cluster.state, 'ready', 'it has its lease');
    a.memory.level = 'scarce';
    await bench.pass(10_000, () => assert.ok(!a.ready, 'requests would fill its memory again'));
    for (let times = 0; times < 3; times++) {
      a.memory.level = 'short';
      await bench.pass(4_500, () => assert.ok(!a.ready));
      a.memory.level = 'scarce';
      await bench.pass(500, () => assert.ok(!a.ready));
    }
    a.memory.level = 'short';
    await bench.pass(5_500, () => assert.ok(b.ready && c.ready));
    assert.ok(a.ready);
    assert.deepEqual(a.node.cluster.degraded, []);
  }));

test('fault:F40 nodes that are overloaded at once stay ready, and so does a node without others', () =>
  onNodes(async (bench) => {
    const a = await laden(bench, 'a');
    a.memory.level = 'spent';
    await bench.pass(5_000, () => assert.ok(a.ready));
    a.memory.level = 'ample';
    const b = await laden(bench, 'b');
    await bench.pass(6_000);
    a.memory.level = 'spent';
    await bench.pass(100);
    b.memory.level = 'spent';
    await bench.pass(10_000, () => assert.ok(a.ready && b.ready));
    assert.match(b.node.cluster.degraded.join(), OVERLOADED);
    b.memory.level = 'ample';
    await bench.pass(10_000, () => assert.ok(b.ready));
    assert.ok(!a.ready);
    // The load of both nodes is too much for b.
    b.memory.level = 'spent';
    await bench.pass(10_000, () => assert.ok(a.ready || b.ready));
    assert.ok(a.ready && b.ready);
  }));

test('fault:F40 an overloaded node sheds its requests only while at least as many nodes can take requests as cannot', () =>
  onNodes(async (bench) => {
    const [a, b, c] = [await laden(bench, 'a'), await laden(bench, 'b'), await laden(bench, 'c')];
    a.memory.level = b.memory.level = 'spent';
    await bench.pass(10_000, () => assert.ok(a.ready && b.ready && c.ready, 'one has no room for the load of three'));
    b.memory.level = 'ample';
    await bench.pass(10_000);
    assert.ok(!a.ready && b.ready);
    for (const one of [b, c]) one.node.overrun();
    await bench.pass(1_000);
    assert.ok(a.ready && b.ready && c.ready, 'b and c do not keep up with the bus');
    assert.match(b.node.cluster.degraded.join(), /does not keep up/);
    await bench.pass(10_000);
    assert.ok(!a.ready && b.ready && c.ready);
    b.node.cluster.drain();
    c.node.cut();
    await bench.pass(2_000);
    assert.ok(a.ready);
  }));

test('fault:F40 a node that has just started takes the requests of an overloaded one only when balancers have seen it ready', () =>
  onNodes(async (bench) => {
    const a = await laden(bench, 'a');
    a.memory.level = 'spent';
    const joining = laden(bench, 'b');
    const b = bench.nodes.at(-1)!.cluster;
    let readyAt = 0;
    await bench.pass(6_000, () => {
      if (readyAt === 0 && b.notReady === null) readyAt = bench.clock.now();
      if (readyAt === 0 || bench.clock.now() < readyAt + 1_500) assert.ok(a.ready);
    });
    await joining;
    assert.ok(readyAt > 0 && !a.ready);
  }));
