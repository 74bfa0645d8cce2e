import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { memoryBus, remoteSpec, serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { PlayedUpstreams, RecordedEvents } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import { MemoryHub } from '../../bus/memory/memory-wire.ts';
import { Logger } from '../../telemetry/logger.ts';
import { FirstCatalogs } from './first-catalogs.ts';
import type { Place, RemoteInstance } from './routing-table.ts';

/** This node, and another one that has the server. */
class Bench {
  readonly clock = new FakeClock();
  readonly #hub = new MemoryHub();
  readonly #buses = [memoryBus(this.#hub, this.clock), memoryBus(this.#hub, this.clock)] as const;
  readonly there = new PlayedUpstreams('b');
  readonly advertised = { definition: { name: 'web' }, catalogs: 1 };
  readonly instance = { node: { peer: this.#buses[1].peer }, advertised: this.advertised } as unknown as RemoteInstance;
  readonly server = serverNamed('web', { transport: remoteSpec });
  readonly place: Place = {
    server: this.server,
    process: false,
    here: false,
    otherInstances: [this.instance],
    lost: null,
  };
  readonly first = this.#catalogs(0, new PlayedUpstreams('a'));

  #catalogs(node: 0 | 1, local: PlayedUpstreams): FirstCatalogs {
    const events = new RecordedEvents();
    return new FirstCatalogs({ bus: this.#buses[node], clock: this.clock, logger: Logger.silent(), local, events });
  }

  lists(...tools: string[]): void {
    this.there.catalogs.set('web', serverCatalog('web', { tools: tools.map((name) => tool(name)) }));
  }

  /** The other node answers from now on. */
  answer(): void {
    this.#catalogs(1, this.there);
  }

  get shown(): readonly string[] | undefined {
    return this.first.get('web')?.lists.tools.items.map(({ key }) => key);
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#buses.map((bus) => bus.close()));
  }
}

test('a node asks another one for its lists again until the other one answers or is gone', async () => {
  const bench = new Bench();
  const { first, place, instance } = bench;
  bench.lists('one');
  first.look(place, instance);
  await bench.clock.advance(8_000);
  assert.deepEqual([bench.shown, first.idle], [undefined, false]);
  bench.answer();
  await bench.clock.advance(8_000);
  assert.deepEqual([bench.shown, first.idle], [['one'], true]);
  await bench.dispose();

  const gone = new Bench();
  gone.first.look(gone.place, gone.instance);
  await gone.clock.advance(8_000);
  gone.first.forget('web');
  await gone.clock.advance(8_000);
  assert.equal(gone.first.idle, true);
  await gone.dispose();
});

test('lists that change while they are read are read again, and dropped when this node lists the server itself', async () => {
  const bench = new Bench();
  const { first, place, instance } = bench;
  bench.answer();
  bench.lists('one');
  const { there } = bench;
  const answers = mock.method(there, 'knownCatalog', (server: string) => {
    const catalog = there.catalogs.get(server)!;
    if (answers.mock.callCount() > 0) return catalog;
    bench.lists('one', 'two');
    bench.advertised.catalogs++;
    first.look(place, instance);
    return catalog;
  });
  first.look(place, instance);
  await settled();
  await bench.clock.advance(1);
  assert.deepEqual(bench.shown, ['one', 'two']);
  bench.advertised.catalogs++;
  first.look(place, instance);
  first.look({ ...place, here: true }, null);
  await settled();
  await bench.clock.advance(1);
  assert.deepEqual([bench.shown, first.idle], [undefined, true]);
  await bench.dispose();
});
