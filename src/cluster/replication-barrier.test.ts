import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBus } from '../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../test/support/fake-clock.ts';
import { MemoryHub } from '../bus/memory/memory-wire.ts';
import { Progress, ReplicationBarrier } from './replication-barrier.ts';

class Bench {
  readonly clock = new FakeClock();
  readonly #hub = new MemoryHub();
  readonly #closing: (() => unknown)[] = [];
  readonly #peers: string[] = [];

  /** A node, and how far its records are. */
  node(): { readonly progress: Progress; readonly everywhere: ReplicationBarrier } {
    const bus = memoryBus(this.#hub, this.clock);
    const progress = new Progress(this.clock);
    const others = () => this.#peers.filter((peer) => peer !== bus.peer);
    const everywhere = new ReplicationBarrier({ bus, clock: this.clock, progress, others });
    this.#peers.push(bus.peer);
    this.#closing.push(
      () => everywhere.close(),
      () => bus.close(),
    );
    return { progress, everywhere };
  }

  /** A node of an earlier version, which knows nothing of this. */
  stranger(): void {
    const bus = memoryBus(this.#hub, this.clock);
    this.#peers.push(bus.peer);
    this.#closing.push(() => bus.close());
  }

  async close(): Promise<void> {
    for (const close of this.#closing) await close();
  }
}

test('check:C9 a write is known everywhere when every node has confirmed it, and not before', async () => {
  const bench = new Bench();
  const [a, b, c] = [bench.node(), bench.node(), bench.node()];
  let known = false;
  const put = a.everywhere.put('s1').then(() => {
    known = true;
  });
  a.progress.wrote('another', 6);
  b.progress.heard(7);
  a.progress.wrote('s1', 7);
  c.progress.heard(6);
  await settled();
  assert.equal(known, false, 'neither the writer nor the third has heard of it');
  a.progress.heard(7);
  await settled();
  assert.equal(known, false);
  c.progress.heard(9);
  await put;
  await bench.close();
});

test('no wait for a silent node or an absent store exceeds a second', async () => {
  const bench = new Bench();
  const a = bench.node();
  bench.node();
  const unheard = a.everywhere.put('s1');
  a.progress.wrote('s1', 7);
  a.progress.heard(7);
  const unwritten = a.everywhere.put('s2');
  await settled();
  await bench.clock.advance(1_000);
  await Promise.all([unheard, unwritten]);
  await bench.close();
});

test('waits that timed out leave nothing: when the store is back, no node is asked about them', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node(), bench.node()];
  for (let i = 0; i < 3; i++) {
    const put = a.everywhere.put('s1');
    await settled();
    await bench.clock.advance(1_000);
    await put;
  }
  assert.equal(a.progress.waiting, 0);
  a.progress.wrote('s1', 7);
  await settled();
  assert.equal(b.progress.waiting, 0, 'the other node is not asked');
  // One that another node asks about, and that does not come.
  const last = a.everywhere.put('s1');
  a.progress.wrote('s1', 8);
  a.progress.heard(8);
  await settled();
  assert.equal(b.progress.waiting, 1);
  await bench.clock.advance(1_000);
  await last;
  assert.deepEqual([a.progress.waiting, b.progress.waiting], [0, 0]);
  await bench.close();
});

test('a node that does not know the question does not delay the others', async () => {
  const bench = new Bench();
  const a = bench.node();
  bench.stranger();
  const put = a.everywhere.put('s1');
  a.progress.wrote('s1', 7);
  a.progress.heard(7);
  await put;
  await bench.close();
});

test('revisions of another making of the bucket begin again', async () => {
  const progress = new Progress(new FakeClock());
  progress.heard(40);
  progress.restart();
  let heard = false;
  void progress.heardUpTo(3, 1_000).then(() => {
    heard = true;
  });
  await settled();
  assert.equal(heard, false);
  progress.heard(3);
  await settled();
  assert.equal(heard, true);
});
