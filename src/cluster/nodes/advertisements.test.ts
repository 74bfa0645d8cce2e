import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBus } from '../../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { BusServing } from '../../bus/bus.ts';
import { MemoryHub } from '../../bus/memory/memory-wire.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import { Advertisements } from './advertisements.ts';
import type { NodeView } from './node-state.ts';
import type { Nodes } from './nodes.ts';

/** Many more requests than a node takes at once. */
const MANY = 1_000;

/** One node that reads, and another that is asked. */
class Bench {
  readonly clock = new FakeClock();
  readonly hub = new MemoryHub();
  readonly bus = memoryBus(this.hub, this.clock);
  readonly other = memoryBus(this.hub, this.clock);
  readonly view = { id: 'b', peer: this.other.peer, offer: 1 } as NodeView & { offer: number };
  lost = false;
  warned = 0;
  changed = 0;
  readonly changedServers: string[] = [];
  readonly advertisements = new Advertisements(
    { bus: this.bus, clock: this.clock, logger: { warn: () => this.warned++, debug: () => {} } as unknown as Logger },
    { get: () => (this.lost ? null : this.view), others: () => (this.lost ? [] : [this.view]) } as unknown as Nodes,
    { text: () => packFrame({ version: 0, servers: [] }) },
    {
      serversChanged: (servers = []) => {
        this.changed++;
        this.changedServers.push(...servers);
      },
      serversNeeded: () => {},
    },
  );

  async dispose(): Promise<void> {
    await Promise.all([this.bus.close(), this.other.close()]);
  }
}

test('concurrent readers of a node’s advertisement cause one read, and one more for the readers that came meanwhile', async () => {
  const bench = new Bench();
  const asked: BusServing[] = [];
  bench.other.serve('trunkline.offer', (serving) => {
    asked.push(serving);
  });
  let heard = 0;
  const ask = () => bench.advertisements.readNow([bench.other.peer]).then(() => heard++);
  const first = ask();
  await settled();
  const rest = Array.from({ length: MANY }, ask);
  await settled();
  assert.equal(asked.length, 1);
  asked[0]!.answer(packFrame({ version: 1, servers: [] }));
  await first;
  await settled();
  assert.deepEqual([asked.length, heard], [2, 1], 'an earlier read does not serve readers that came later');
  asked[1]!.answer(packFrame({ version: 1, servers: [] }));
  await Promise.all(rest);
  await settled();
  assert.deepEqual([asked.length, heard, bench.changed, bench.warned], [2, 1 + MANY, 2, 0]);
  // The other readers cause no further reads.
  await bench.clock.advance(1_000);
  assert.equal(asked.length, 2);
  const later = ask();
  await settled();
  assert.equal(asked.length, 3);
  asked[2]!.answer(packFrame({ version: 1, servers: [] }));
  await later;
  await bench.dispose();
});

test('a heartbeat causes a read only if it is newer than the last publication, or if the last read failed', async () => {
  const bench = new Bench();
  const asked: BusServing[] = [];
  bench.other.serve('trunkline.offer', (serving) => {
    asked.push(serving);
  });
  const look = async (offer: number): Promise<number> => {
    bench.advertisements.look({ ...bench.view, offer });
    await settled();
    return asked.length;
  };
  assert.equal(await look(1), 1);
  asked[0]!.fail(new GatewayError('NOT_SENT', 'it is closing'));
  await settled();
  assert.equal(await look(1), 2);
  asked[1]!.answer(packFrame({ version: 1, servers: [] }));
  await settled();
  bench.other.publish(`trunkline.offered.${bench.other.peer}`, packFrame({ version: 2, changed: [], removed: [] }));
  await settled();
  assert.deepEqual([await look(1), await look(2), await look(3)], [2, 2, 3]);
  await bench.dispose();
});

test('a read or publication of some servers of a node changes these, and no others', async () => {
  const bench = new Bench();
  const { peer } = bench.other;
  const server = (name: string, more = {}): object => {
    return {
      definition: { name },
      digests: ['d'],
      status: { name, state: 'running' },
      catalogs: 1,
      ...more,
    };
  };
  let answer: object = { version: 1, servers: [server('a'), server('b', { changes: 1 })] };
  bench.other.serve('trunkline.offer', (serving) => serving.answer(packFrame(answer)));
  const read = (next: object): Promise<void> => {
    answer = next;
    return bench.advertisements.readNow([peer]);
  };
  await read(answer);
  const known = () => [...bench.advertisements.of(peer)!.values()];
  assert.deepEqual(bench.changedServers.splice(0), ['a', 'b']);
  await read({ version: 2, since: 1, servers: [server('a', { catalogs: 2 })] });
  assert.deepEqual([bench.changedServers.splice(0), known().map(({ catalogs }) => catalogs)], [['a'], [2, 1]]);
  await read({ version: 3, since: 2, servers: [server('a', { status: null })], removed: [] });
  assert.deepEqual([bench.changedServers.splice(0), known()[0]!.status], [['a'], null]);
  const members = { status: { state: 'running' }, catalogs: 3 };
  bench.other.publish(
    `trunkline.offered.${peer}`,
    packFrame({ version: 4, changed: [{ name: 'a', members }], removed: [] }),
  );
  await settled();
  assert.deepEqual([known()[0]!.status?.state, known()[0]!.catalogs], ['running', 3]);
  assert.deepEqual(bench.changedServers.splice(0), ['a']);
  await read({ version: 5, since: 4, servers: [server('c')], removed: ['b'] });
  assert.deepEqual(bench.changedServers.splice(0), ['b', 'c']);
  assert.deepEqual(
    known().map(({ definition }) => definition.name),
    ['a', 'c'],
  );
  await bench.dispose();
});

test('of a node that was lost and is back, the changes are read; everything if it was lost for more than a minute', async () => {
  const bench = new Bench();
  const since: (number | undefined)[] = [];
  bench.other.serve('trunkline.offer', (serving) => {
    const request = unpackFrame<{ readonly since?: number }>(serving.payload).header;
    since.push(request.since);
    const whole = request.since === undefined ? {} : { since: request.since };
    serving.answer(packFrame({ version: since.length, servers: [], ...whole }));
  });
  const refresh = async (lost: boolean): Promise<void> => {
    bench.lost = lost;
    bench.view.offer++;
    bench.advertisements.refresh();
    await settled();
  };
  await refresh(false);
  await refresh(true);
  const { advertisements, other } = bench;
  await bench.clock.advance(50_000);
  await refresh(true);
  const changed = bench.changed;
  bench.lost = false;
  bench.view.offer++;
  advertisements.refresh();
  assert.deepEqual(
    [advertisements.of(other.peer), advertisements.complete],
    [null, false],
    'its servers are not known yet',
  );
  await settled();
  assert.deepEqual([advertisements.of(other.peer)?.size, advertisements.complete], [0, true]);
  assert.equal(bench.changed, changed + 1);
  await refresh(true);
  await bench.clock.advance(50_000);
  // Its publication arrives before its first heartbeat.
  other.publish(`trunkline.offered.${other.peer}`, packFrame({ version: 3, changed: [], removed: [] }));
  await settled();
  bench.lost = false;
  bench.view.offer = 2;
  const before = bench.changed;
  advertisements.refresh();
  assert.equal(advertisements.of(other.peer)?.size, 0, 'nothing has changed meanwhile');
  assert.equal(bench.changed, before + 1, 'the routing table gets its servers again');
  await refresh(true);
  await bench.clock.advance(61_000);
  assert.equal(bench.clock.pending, 0, 'forgotten without any other event');
  await refresh(false);
  assert.deepEqual(since, [undefined, 1, undefined]);
  await bench.dispose();
});

test('a node that does not advertise is logged once for all readers', async () => {
  const bench = new Bench();
  await Promise.all(Array.from({ length: MANY }, () => bench.advertisements.readNow([bench.other.peer])));
  await bench.advertisements.readNow([bench.other.peer]);
  assert.equal(bench.warned, 1);
  bench.other.serve('trunkline.offer', (serving) => serving.answer(packFrame({ version: 1, servers: [] })));
  await bench.advertisements.readNow([bench.other.peer]);
  assert.equal(bench.warned, 1);
  await bench.dispose();
});
