import type { Bucket, BucketOptions, SharedState, StateRecord } from '../bus/shared-state.ts';

/**
 * Opens the bucket on first use and again after a failure, so that a node runs without the store. Operations reject as those of
 * `Bucket`.
 */
export class LazyBucket implements Bucket {
  readonly name: string;
  readonly get: Bucket['get'] = (key) => this.#with((bucket) => bucket.get(key));
  readonly look: Bucket['look'] = (key) => this.#with((bucket) => bucket.look(key));
  readonly create: Bucket['create'] = (key, value) => this.#with((bucket) => bucket.create(key, value));
  readonly restore: Bucket['restore'] = (key, value) => this.#with((bucket) => bucket.restore(key, value));
  readonly update: Bucket['update'] = (key, value, at) => this.#with((bucket) => bucket.update(key, value, at));
  readonly delete: Bucket['delete'] = (key, at) => this.#with((bucket) => bucket.delete(key, at));
  readonly forgetMarks: Bucket['forgetMarks'] = (olderThanMs) =>
    this.#with((bucket) => bucket.forgetMarks(olderThanMs));
  readonly keys: Bucket['keys'] = (pattern) => this.#with((bucket) => bucket.keys(pattern));
  readonly watch: Bucket['watch'] = (pattern, watcher, newest) =>
    this.#with((bucket) => bucket.watch(pattern, watcher, newest));
  readonly #open: () => Promise<Bucket>;
  #bucket: Promise<Bucket> | null = null;
  #opened: Bucket | null = null;
  #long = '';
  #short = '';

  constructor(state: SharedState, name: string, options: BucketOptions) {
    this.name = name;
    this.#open = () => state.bucket(name, options);
  }

  /** The incarnation last seen; empty before. Every call of another node asks for it. */
  get incarnation(): string {
    if (this.#opened === null) return '';
    const { incarnation } = this.#opened;
    if (incarnation !== this.#long) [this.#long, this.#short] = [incarnation, shortened(incarnation)];
    return this.#short;
  }

  async readIncarnation(): Promise<string> {
    // A read does not show that another node has created it again.
    this.#bucket = null;
    await this.#with(async () => {});
    return this.incarnation;
  }

  /** Over the record that was read, null: over none. Null if there is another one. */
  write(key: string, value: Buffer, over: Pick<StateRecord, 'revision'> | null): Promise<number | null> {
    return over === null ? this.create(key, value) : this.update(key, value, over.revision);
  }

  async #with<T>(work: (bucket: Bucket) => Promise<T>): Promise<T> {
    this.#bucket ??= this.#open();
    const opened = this.#bucket;
    try {
      const bucket = await opened;
      this.#opened = bucket;
      return await work(bucket);
    } catch (error) {
      if (this.#bucket === opened) this.#bucket = null;
      throw error;
    }
  }
}

/** Null if it is no JSON object. */
export function jsonIn<T extends object>(value: Buffer): T | null {
  try {
    const json: unknown = JSON.parse(value.toString());
    return typeof json === 'object' ? (json as T | null) : null;
  } catch {
    return null;
  }
}

function shortened(incarnation: string): string {
  return /^\d{4}-\d\d-\d\dT/.test(incarnation) ? String(Date.parse(incarnation)) : incarnation;
}

/** Orders the owners of a claim: incarnation of the store and revision. */
export function fencingToken(incarnation: string, revision: number): string {
  return `${incarnation}.${revision}`;
}
