import type { StateRecord } from '../../bus/shared-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LazyBucket } from '../lazy-bucket.ts';
import { type KnownRecords, MissingRecords } from './missing-records.ts';
import { WriteBehind, type Written, type WrittenRecords } from './write-behind.ts';

const AGAIN_MS = 1_000;
const MAX_WAITING = 10_000;

export interface RecordSettings {
  readonly bucket: string;
  readonly keptMs: number;
  readonly maxValueBytes: number;
  /** Limit of waiting writes during an outage. */
  readonly maxWaiting?: number;
}

export interface RecordOwner {
  /**
   * Written here or at another node. `again`: known before an outage and received again; it may have been lost and written again
   * by a node that knew less.
   */
  heard(key: string, value: Buffer, again: boolean): void;
  gone(key: string): void;
  /** All records were listed, for the first time or again. */
  heardAll?(): void;
  /** The store has lost it: what to write again; null if it is unknown here. */
  recall(key: string): Buffer | null;
  /** Merges this node's value with the stored one. With it, what is received during a write waits for the end of the write. */
  merged?(key: string, value: Buffer, there: Buffer): Buffer;
}

type Deps = Pick<ClusterDeps, 'state' | 'clock' | 'logger'>;

/**
 * Small records that every node follows, so that a look-up costs nothing. Written behind. A deleted key is never used again. What
 * the store has lost is written again once, by the first node.
 */
export class FollowedRecords implements KnownRecords, WrittenRecords {
  readonly #deps: Deps;
  readonly #name: string;
  readonly #owner: RecordOwner;
  readonly #bucket: LazyBucket;
  readonly #writes: WriteBehind;
  /** Since the last listing began. */
  #received = new Set<string>();
  /** Known before the last listing began and not received since. */
  readonly #unconfirmed = new Set<string>();
  /** Received during a write of this node. */
  readonly #late = new Map<string, StateRecord>();
  readonly #progress = new Progress();
  #watch: { close(): void } | null = null;
  #stopWatch: (() => void) | null = null;
  #missing: MissingRecords | null = null;
  #closed = false;

  constructor(deps: Deps, settings: RecordSettings, owner: RecordOwner) {
    const { bucket: name, keptMs: ttlMs, maxValueBytes, maxWaiting = MAX_WAITING } = settings;
    this.#deps = deps;
    this.#name = name;
    this.#owner = owner;
    this.#bucket = new LazyBucket(deps.state, name, { ttlMs, maxValueBytes });
    this.#writes = new WriteBehind(deps, this.#bucket, name, maxWaiting, this);
    void this.#follow();
  }

  /** Null deletes. */
  put(key: string, value: Buffer | null): void {
    this.#writes.put(key, value);
  }

  /** Resolves with the revision of the last value put. */
  written(key: string): Wait<number> {
    return this.#progress.written(key);
  }

  /** Resolves when everything up to this revision has been received. */
  heardUpTo(revision: number): Wait<number> {
    return this.#progress.heardUpTo(revision);
  }

  /** Null: to be deleted; undefined: nothing waits. */
  waiting(key: string): Buffer | null | undefined {
    return this.#writes.waiting(key);
  }

  /** Rejects with GatewayError. */
  get(key: string): Promise<StateRecord | null> {
    return this.#bucket.get(key);
  }

  async close(): Promise<void> {
    await Promise.all([this.#writes.close(), this.#missing?.close()]);
    this.#closed = true;
    this.#missing?.stop();
    this.#watch?.close();
    this.#stopWatch?.();
  }

  heard(record: StateRecord): void {
    const { key, value } = record;
    this.#received.add(key);
    const again = this.#unconfirmed.delete(key);
    if (this.#owner.merged !== undefined && this.#writes.has(key)) this.#late.set(key, record);
    else this.#owner.heard(key, value, again);
  }

  known(key: string): boolean {
    return this.#received.has(key) || this.#unconfirmed.has(key);
  }

  isMissing(key: string): boolean {
    return this.#unconfirmed.has(key) && !this.#writes.has(key);
  }

  merged(key: string, value: Buffer, there: Buffer): Buffer {
    return this.#owner.merged?.(key, value, there) ?? value;
  }

  /** Most deletions concern records never seen here. */
  gone(key: string): void {
    if (this.known(key)) this.#forget(key);
  }

  #forget(key: string): void {
    this.#late.delete(key);
    this.#received.delete(key);
    this.#unconfirmed.delete(key);
    this.#owner.gone(key);
  }

  wrote(key: string, { revision, value, merged }: Written): void {
    const late = this.#late.get(key);
    this.#late.delete(key);
    this.#progress.wrote(key, revision);
    if (value === null) {
      if (merged) this.#forget(key);
    } else if (late !== undefined && late.revision > revision) this.#owner.heard(key, late.value, false);
    else if (merged) this.#owner.heard(key, value, false);
  }

  /** What was not listed was deleted, or lost. */
  #confirmAll(): void {
    this.#owner.heardAll?.();
    this.#missing = new MissingRecords(this.#deps, this.#bucket, this.#name, this, this.#unconfirmed);
  }

  recall(key: string): Buffer | null {
    const value = this.#owner.recall(key);
    if (value === null) this.#unconfirmed.delete(key);
    return value;
  }

  async #follow(): Promise<void> {
    const { clock, logger } = this.#deps;
    try {
      const watch = await this.#bucket.watch('>', {
        put: (record) => {
          this.heard(record);
          this.#progress.heard(record.revision);
        },
        gone: (key, revision) => {
          this.gone(key);
          this.#progress.heard(revision);
        },
        onBegin: () => {
          this.#missing?.stop();
          for (const key of this.#received) this.#unconfirmed.add(key);
          this.#received = new Set();
          // Revisions of another incarnation do not compare.
          this.#late.clear();
          this.#progress.restart();
        },
        onReady: () => this.#confirmAll(),
      });
      if (this.#closed) watch.close();
      else this.#watch = watch;
    } catch (error) {
      if (this.#closed) return;
      logger.debug('records_not_followed', { bucket: this.#name, error: String(error) });
      this.#stopWatch = clock.after(AGAIN_MS, () => void this.#follow());
    }
  }
}

/** A wait that leaves nothing behind when the caller gives up. */
export interface Wait<Value> {
  readonly come: Promise<Value>;
  readonly giveUp: () => void;
}

type Tell = (revision: number) => void;

export class Progress {
  readonly #written = new Map<string, Set<Tell>>();
  readonly #unheard = new Map<Tell, number>();
  #upTo = 0;

  get waiting(): number {
    let waiting = this.#unheard.size;
    for (const { size } of this.#written.values()) waiting += size;
    return waiting;
  }

  /** Never resolves for what is not written because it is too large. */
  written(key: string): Wait<number> {
    const { promise: come, resolve } = Promise.withResolvers<number>();
    const all = this.#written.get(key) ?? new Set();
    this.#written.set(key, all.add(resolve));
    const giveUp = (): void => {
      if (all.delete(resolve) && all.size === 0) this.#written.delete(key);
    };
    return { come, giveUp };
  }

  wrote(key: string, revision: number): void {
    const all = this.#written.get(key);
    if (all === undefined) return;
    this.#written.delete(key);
    for (const tell of all) tell(revision);
    all.clear();
  }

  heardUpTo(revision: number): Wait<number> {
    const { promise: come, resolve } = Promise.withResolvers<number>();
    if (revision <= this.#upTo) resolve(revision);
    else this.#unheard.set(resolve, revision);
    return { come, giveUp: () => this.#unheard.delete(resolve) };
  }

  heard(revision: number): void {
    if (revision <= this.#upTo) return;
    this.#upTo = revision;
    for (const [tell, wanted] of this.#unheard) {
      if (wanted > revision) continue;
      this.#unheard.delete(tell);
      tell(revision);
    }
  }

  /** Revisions may begin again. */
  restart(): void {
    this.#upTo = 0;
  }
}
