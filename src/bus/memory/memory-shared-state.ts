import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Bucket, BucketOptions, SharedState, StateRecord, StateWatcher } from '../shared-state.ts';
import { subjectMatches } from '../subjects.ts';

const MAX_VALUE_BYTES = 64 * 1024;

interface MemoryRecord extends StateRecord {
  readonly expires: () => void;
}

interface Deletion {
  readonly revision: number;
  readonly at: number;
}

/** Shared records in the memory of one process, for tests and for nodes that share the process. */
export class MemorySharedState implements SharedState {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, MemoryBucket>();
  #made = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  bucket(name: string, options: BucketOptions): Bucket {
    let bucket = this.#buckets.get(name);
    if (bucket === undefined) {
      bucket = new MemoryBucket(name, `${++this.#made}`, this.#clock);
      this.#buckets.set(name, bucket);
    }
    bucket.options = options;
    return bucket;
  }
}

class MemoryBucket implements Bucket {
  readonly name: string;
  readonly incarnation: string;
  options: BucketOptions = { ttlMs: 0 };
  readonly #clock: Clock;
  readonly #records = new Map<string, MemoryRecord>();
  readonly #deletions = new Map<string, Deletion>();
  readonly #watches = new Set<{ readonly pattern: string; readonly watcher: StateWatcher }>();
  #revision = 0;

  constructor(name: string, incarnation: string, clock: Clock) {
    this.name = name;
    this.incarnation = incarnation;
    this.#clock = clock;
  }

  async readIncarnation(): Promise<string> {
    return this.incarnation;
  }

  async get(key: string): Promise<StateRecord | null> {
    const kept = this.#records.get(key);
    return kept === undefined ? null : { key, value: Buffer.from(kept.value), revision: kept.revision };
  }

  async look(key: string): Promise<StateRecord | 'deleted' | null> {
    return (await this.get(key)) ?? (this.#deletions.has(key) ? 'deleted' : null);
  }

  async create(key: string, value: Buffer): Promise<number | null> {
    return this.#records.has(key) ? null : this.#put(key, value);
  }

  async restore(key: string, value: Buffer): Promise<number | null> {
    return this.#deletions.has(key) ? null : this.create(key, value);
  }

  async update(key: string, value: Buffer, revision: number): Promise<number | null> {
    return this.#records.get(key)?.revision === revision ? this.#put(key, value) : null;
  }

  async delete(key: string, revision?: number): Promise<boolean> {
    if (revision !== undefined && this.#records.get(key)?.revision !== revision) return false;
    this.#remove(key);
    return true;
  }

  async purgeTombstones(olderThanMs: number): Promise<number> {
    const before = this.#clock.now() - olderThanMs;
    const all = [...this.#deletions].filter(([, { revision, at }]) => at <= before && revision < this.#revision);
    for (const [key] of all) this.#deletions.delete(key);
    return all.length;
  }

  async keys(pattern = '>'): Promise<readonly string[]> {
    return [...this.#records.keys()].filter((key) => subjectMatches(pattern, key));
  }

  async watch(pattern: string, watcher: StateWatcher, newest?: number): Promise<{ close(): void }> {
    watcher.onBegin?.();
    const complete = this.#records.size <= (newest ?? Number.POSITIVE_INFINITY);
    const from = complete ? 0 : this.#revision - newest! + 1;
    for (const { key, value, revision } of this.#records.values())
      if (revision >= from && subjectMatches(pattern, key)) watcher.put({ key, value, revision });
    for (const [key, { revision }] of this.#deletions)
      if (revision >= from && subjectMatches(pattern, key)) watcher.gone(key, revision);
    watcher.onReady?.(this.incarnation, complete);
    const watch = { pattern, watcher };
    this.#watches.add(watch);
    return { close: () => void this.#watches.delete(watch) };
  }

  #put(key: string, bytes: Buffer): number {
    const most = this.options.maxValueBytes ?? MAX_VALUE_BYTES;
    if (bytes.length > most) {
      throw new GatewayError('TOO_LARGE', `a record of ${bytes.length} bytes`, { outcome: 'NOT_SENT' });
    }
    this.#records.get(key)?.expires();
    const { ttlMs } = this.options;
    const revision = ++this.#revision;
    const kept: MemoryRecord = {
      key,
      value: Buffer.from(bytes),
      revision,
      expires: ttlMs === 0 ? () => {} : this.#clock.after(ttlMs, () => this.#records.delete(key)),
    };
    // Re-inserted, so that `watch` lists records in the order of their changes.
    this.#records.delete(key);
    this.#records.set(key, kept);
    this.#deletions.delete(key);
    this.#notify(key, (watcher) => watcher.put({ key, value: kept.value, revision }));
    return revision;
  }

  #remove(key: string): void {
    this.#records.get(key)?.expires();
    this.#records.delete(key);
    const revision = ++this.#revision;
    this.#deletions.set(key, { revision, at: this.#clock.now() });
    this.#notify(key, (watcher) => watcher.gone(key, revision));
    const { ttlMs } = this.options;
    if (ttlMs === 0) return;
    this.#clock.after(ttlMs, () => {
      if (this.#deletions.get(key)?.revision === revision) this.#deletions.delete(key);
    });
  }

  #notify(key: string, change: (watcher: StateWatcher) => void): void {
    for (const { pattern, watcher } of this.#watches) if (subjectMatches(pattern, key)) change(watcher);
  }
}
