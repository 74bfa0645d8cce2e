import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALONE, memoryBus } from '../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../test/support/fake-clock.ts';
import { LossyStore, type StoreView } from '../../test/support/lossy-store.ts';
import { MemoryHub } from '../bus/memory/memory-wire.ts';
import { Logger } from '../telemetry/logger.ts';
import { ReplicationBarrier } from './replication-barrier.ts';
import { SharedTable } from './shared-table.ts';

interface Node {
  readonly view: StoreView;
  readonly table: SharedTable;
  readonly everywhere: ReplicationBarrier;
  readonly known: Map<string, string>;
}

class Bench {
  readonly clock = new FakeClock();
  readonly #store = new LossyStore(this.clock);
  readonly #hub = new MemoryHub();
  readonly #closing: (() => unknown)[] = [];
  readonly #peers: string[] = [];

  node(): Node {
    const bus = memoryBus(this.#hub, this.clock);
    const view = this.#store.view();
    const known = new Map<string, string>();
    const deps = { ...ALONE, state: view, clock: this.clock, logger: Logger.silent() };
    const table = new SharedTable(
      deps,
      { bucket: 'b', ttlMs: 0 },
      {
        received: ({ key, value }) => void known.set(key, value.toString()),
        gone: (key) => void known.delete(key),
        recall: () => null,
      },
    );
    const others = () => this.#peers.filter((peer) => peer !== bus.peer).map((peer) => ({ peer }));
    const everywhere = new ReplicationBarrier({ bus, clock: this.clock, table, nodes: { others } });
    this.#peers.push(bus.peer);
    this.#closing.push(
      () => everywhere.close(),
      () => bus.close(),
    );
    return { view, table, everywhere, known };
  }

  /** A node of an earlier version, without a replication barrier. */
  stranger(): void {
    const bus = memoryBus(this.#hub, this.clock);
    this.#peers.push(bus.peer);
    this.#closing.push(() => bus.close());
  }

  async pass(): Promise<void> {
    await settled();
    await this.clock.advance(5);
    await settled();
  }

  async close(): Promise<void> {
    for (const close of this.#closing) await close();
  }
}

test('check:C9 a write is known everywhere, also at a node that lags behind the store', async () => {
  const bench = new Bench();
  const [a, b, c] = [bench.node(), bench.node(), bench.node()];
  await settled();
  const { promise, resolve } = Promise.withResolvers<void>();
  a.view.writes = promise;
  for (const { view } of [b, c]) view.hears = false;
  a.table.put('s1', Buffer.from('1'));
  let known = false;
  const put = a.everywhere.put('s1').then(() => {
    known = true;
  });
  await bench.pass();
  assert.equal(known, false, 'the store has not written it yet');
  resolve();
  await settled();
  await bench.pass();
  await put;
  for (const node of [a, b, c]) assert.equal(node.known.get('s1'), '1');
  await bench.close();
});

test('a direct read does not restore a record that was deleted meanwhile', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node(), bench.node()];
  await settled();
  a.table.put('s1', Buffer.from('1'));
  await bench.pass();
  const get = b.table.bucket.get;
  Object.assign(b.table.bucket, {
    get: async (key: string) => {
      const record = await get(key);
      a.table.put('s1', null);
      await settled();
      return record;
    },
  });
  await b.table.read('s1');
  assert.equal(b.known.has('s1'), false);
  await bench.close();
});

test('no wait for a silent node or an absent store exceeds a second', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node(), bench.node()];
  await settled();
  a.table.put('s1', Buffer.from('1'));
  await bench.pass();
  Object.assign(b.table.bucket, { get: () => new Promise(() => {}) });
  const unheard = a.everywhere.put('s1');
  a.view.writes = new Promise(() => {});
  a.table.put('s2', Buffer.from('1'));
  const unwritten = a.everywhere.put('s2');
  for (let at = 0; at < 210; at++) await bench.pass();
  await Promise.all([unheard, unwritten]);
  await bench.close();
});

test('a node of an earlier version does not delay the others', async () => {
  const bench = new Bench();
  const a = bench.node();
  bench.stranger();
  await settled();
  a.table.put('s1', Buffer.from('1'));
  await bench.pass();
  await a.everywhere.put('s1');
  await bench.close();
});
