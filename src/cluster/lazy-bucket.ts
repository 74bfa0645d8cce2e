import type { Bucket, BucketOptions, SharedState, StateRecord } from '../bus/shared-state.ts';

/**
 * A bucket that is opened when it is first used, and again after a failure: a node starts, and lives on, while the store
 * of its cluster cannot be reached. Every operation rejects as those of `Bucket` do.
 */
export class LazyBucket {
  readonly #open: () => Promise<Bucket>;
  #bucket: Promise<Bucket> | null = null;

  constructor(state: SharedState, name: string, options: BucketOptions) {
    this.#open = () => state.bucket(name, options);
  }

  /** Which making of the bucket this is, asked now. */
  incarnation(): Promise<string> {
    this.#bucket = null;
    return this.#with(async (bucket) => bucket.incarnation);
  }

  get(key: string): Promise<StateRecord | null> {
    return this.#with((bucket) => bucket.get(key));
  }

  create(key: string, value: Buffer): Promise<number | null> {
    return this.#with((bucket) => bucket.create(key, value));
  }

  update(key: string, value: Buffer, revision: number): Promise<number | null> {
    return this.#with((bucket) => bucket.update(key, value, revision));
  }

  delete(key: string, revision: number): Promise<boolean> {
    return this.#with((bucket) => bucket.delete(key, revision));
  }

  async #with<T>(work: (bucket: Bucket) => Promise<T>): Promise<T> {
    this.#bucket ??= this.#open();
    const opened = this.#bucket;
    try {
      return await work(await opened);
    } catch (error) {
      if (this.#bucket === opened) this.#bucket = null;
      throw error;
    }
  }
}
