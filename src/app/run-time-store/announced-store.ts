import type { Bus } from '../../bus/bus.ts';
import type {
  Applied,
  ListOptions,
  RunTimeStore,
  StoreRecord,
  StoreSnapshot,
  StoreWrite,
} from '../../store/run-time-store/run-time-store.ts';

/** Code that has written to the store reports it here, with the revision. */
export const STORE_WRITTEN = 'trunkline.truth';

/** The store that nodes share. It notifies the others of changes, so that they need not wait for their next poll. */
export class AnnouncedStore implements RunTimeStore {
  readonly #runTimeStore: RunTimeStore;
  readonly #bus: Bus;

  constructor(runTimeStore: RunTimeStore, bus: Bus) {
    this.#runTimeStore = runTimeStore;
    this.#bus = bus;
  }

  read(collections: readonly string[]): Promise<StoreSnapshot> {
    return this.#runTimeStore.read(collections);
  }

  get(collection: string, key: string): Promise<StoreRecord | null> {
    return this.#runTimeStore.get(collection, key);
  }

  list(collection: string, options?: ListOptions): Promise<readonly StoreRecord[]> {
    return this.#runTimeStore.list(collection, options);
  }

  async apply(writes: readonly StoreWrite[]): Promise<Applied> {
    const applied = await this.#runTimeStore.apply(writes);
    if (applied.ok) this.#bus.publish(STORE_WRITTEN, Buffer.from(String(applied.revision)));
    return applied;
  }

  close(): Promise<void> {
    return this.#runTimeStore.close();
  }
}
