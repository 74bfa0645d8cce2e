import { MemorySharedState } from '../../src/bus/memory/memory-shared-state.ts';
import type { Bucket, BucketOptions, SharedState, StateWatcher } from '../../src/bus/shared-state.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { FakeClock } from './fake-clock.ts';
import { openedLate } from './opened-late.ts';

/** A store that loses records without a notification. */
export class LossyStore {
  readonly #clock: FakeClock;
  readonly #views: StoreView[] = [];
  present: SharedState;

  constructor(clock: FakeClock) {
    this.#clock = clock;
    this.present = new MemorySharedState(clock);
  }

  /** As one node sees it. */
  view(): StoreView {
    const view = new StoreView(this);
    this.#views.push(view);
    return view;
  }

  /** Loses the record, and does not keep a tombstone. */
  async lose(name: string, key: string): Promise<void> {
    // A record that expires leaves no tombstone.
    const bucket = this.present.bucket(name, { ttlMs: 1 });
    for (const view of this.#views) view.hears = false;
    await bucket.delete(key);
    await bucket.create(key, Buffer.alloc(0));
    await this.#clock.advance(1);
    this.present.bucket(name, { ttlMs: 0 });
    for (const view of this.#views) view.hears = true;
  }

  /** Loses everything; the buckets of the same names have a new incarnation. */
  async loseAll(): Promise<void> {
    const anew = new MemorySharedState(this.#clock);
    anew.bucket('other', { ttlMs: 0 });
    this.present = anew;
  }
}

export class StoreView implements SharedState {
  readonly #store: LossyStore;
  readonly #begun: (() => Promise<void>)[] = [];
  /** False: its watches receive no changes. */
  hears = true;
  /** Every operation is refused. */
  away = false;
  /** Writes wait for it; where it rejects, nothing is written. */
  writes: Promise<unknown> = Promise.resolve();
  /** `look` waits for it. */
  looks: Promise<unknown> = Promise.resolve();
  looked = 0;

  constructor(store: LossyStore) {
    this.#store = store;
  }

  bucket(name: string, options: BucketOptions): Bucket {
    return openedLate(name, async () => {
      this.#reach();
      const present = async (): Promise<Bucket> => {
        this.#reach();
        return this.#store.present.bucket(name, options);
      };
      const written = async (): Promise<Bucket> => {
        this.#reach();
        await this.writes;
        return present();
      };
      return {
        name,
        incarnation: (await present()).incarnation,
        get: async (key) => (await present()).get(key),
        look: async (key) => {
          this.looked++;
          const bucket = await present();
          await this.looks;
          return bucket.look(key);
        },
        create: async (key, value) => (await written()).create(key, value),
        restore: async (key, value) => (await written()).restore(key, value),
        update: async (key, value, revision) => (await written()).update(key, value, revision),
        delete: async (key, revision) => (await written()).delete(key, revision),
        purgeTombstones: async (olderThanMs) => (await written()).purgeTombstones(olderThanMs),
        keys: async (pattern) => (await present()).keys(pattern),
        watch: async (pattern, watcher, newest) => {
          let running = { close() {} };
          const begin = async (): Promise<void> => {
            running.close();
            running = await (await present()).watch(pattern, this.#heard(watcher), newest);
          };
          this.#begun.push(begin);
          await begin();
          return { close: () => running.close() };
        },
      };
    });
  }

  /** Its watches begin again, as after an outage. */
  async tellAgain(): Promise<void> {
    for (const begin of this.#begun) await begin();
  }

  #heard(watcher: StateWatcher): StateWatcher {
    return {
      put: (record) => void (this.hears && watcher.put(record)),
      gone: (key, revision) => void (this.hears && watcher.gone(key, revision)),
      onBegin: () => watcher.onBegin?.(),
      onReady: (...of) => watcher.onReady?.(...of),
    };
  }

  #reach(): void {
    if (this.away) throw new GatewayError('NOT_SENT', 'the store is away');
  }
}
