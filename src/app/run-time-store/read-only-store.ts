import type {
  Applied,
  ListOptions,
  RunTimeStore,
  StoreRecord,
  StoreSnapshot,
} from '../../store/run-time-store/run-time-store.ts';

/**
 * What was decided, for somebody who only looks: a command that starts servers for as long as it takes offers what a
 * gateway would, and what it sees first is trusted by nobody but itself.
 */
export class ReadOnlyStore implements RunTimeStore {
  readonly #runTimeStore: RunTimeStore;

  constructor(runTimeStore: RunTimeStore) {
    this.#runTimeStore = runTimeStore;
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

  /** Counts for this process, which holds it in memory, and is written nowhere. */
  apply(): Promise<Applied> {
    return Promise.resolve({ ok: true, revision: 0 });
  }

  close(): Promise<void> {
    return this.#runTimeStore.close();
  }
}
