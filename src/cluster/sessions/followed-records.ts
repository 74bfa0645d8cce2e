import type { StateRecord } from '../../bus/shared-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LazyBucket } from '../lazy-bucket.ts';
import { type KnownRecords, MissingRecords } from './missing-records.ts';
import { WriteBehind, type Written, type WrittenRecords } from './write-behind.ts';

const AGAIN_MS = 1_000;
const MAX_WAITING = 10_000;

export interface RecordSettings {
  readonly bucket: string;
  /** A record that was not written for so long is gone. */
  readonly keptMs: number;
  readonly maxValueBytes: number;
  /** What waits to be written while the store is away. */
  readonly maxWaiting?: number;
}

/** What the records are of. */
export interface RecordOwner {
  /**
   * What was written, here or at another node. `again`: it was heard of before an outage, and for the first time since; it may
   * have been lost, and written again by a node that knew less.
   */
  heard(key: string, value: Buffer, again: boolean): void;
  /** It was deleted. */
  gone(key: string): void;
  /** Everything that is there was heard of, for the first time or again. */
  heardAll?(): void;
  /** The store has lost it: what is to be written again; null: nothing is known of it here. */
  recall(key: string): Buffer | null;
  /**
   * What this node has to say and what is there, put together. With it, what is heard of a record that is being written
   * waits until that is done, and what another node's word has made of it is heard then.
   */
  merged?(key: string, value: Buffer, there: Buffer): Buffer;
}

type Deps = Pick<ClusterDeps, 'state' | 'clock' | 'logger'>;

/**
 * Small records that every node follows, so that looking one up costs nothing. Written behind. What was deleted is gone for
 * good: no key is used again. What the store has lost is written again, once, by whichever node is first.
 */
export class FollowedRecords implements KnownRecords, WrittenRecords {
  readonly #deps: Deps;
  readonly #name: string;
  readonly #owner: RecordOwner;
  readonly #bucket: LazyBucket;
  readonly #writes: WriteBehind;
  /** Heard of since the last full listing began. */
  #received = new Set<string>();
  /** Heard of before that, and not since; until it is heard of again, or is gone. */
  readonly #unconfirmed = new Set<string>();
  /** Heard of while something of this node's own was being written. */
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

  /** null: it is to be deleted. */
  put(key: string, value: Buffer | null): void {
    this.#writes.put(key, value);
  }

  /** Comes with the revision of what was put last, once it is written. */
  written(key: string): Wait<number> {
    return this.#progress.written(key);
  }

  /** Comes when everything up to this revision has been heard of. */
  heardUpTo(revision: number): Wait<number> {
    return this.#progress.heardUpTo(revision);
  }

  /** What waits to be written, or is being; null: to be deleted; undefined: nothing. */
  waiting(key: string): Buffer | null | undefined {
    return this.#writes.waiting(key);
  }

  /** As it is in the store. Rejects with GatewayError. */
  get(key: string): Promise<StateRecord | null> {
    return this.#bucket.get(key);
  }

  async close(): Promise<void> {
    await Promise.all([this.#writes.close(), this.#missing?.close()]);
    this.#closed = true;
    // A new listing may have ended meanwhile.
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

  /** Of most that was deleted at some time nothing was ever heard here. */
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

  /** Everything was listed, for the first time or again: what was not was deleted, or lost. */
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
          // Revisions of another making tell nothing.
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

/** What is waited for until it comes or the caller gives up: then nothing of it is kept. */
export interface Wait<Value> {
  readonly come: Promise<Value>;
  readonly giveUp: () => void;
}

type Tell = (revision: number) => void;

/** How far the records of a bucket were written and heard of, for callers that wait for that. */
export class Progress {
  readonly #written = new Map<string, Set<Tell>>();
  readonly #unheard = new Map<Tell, number>();
  #upTo = 0;

  /** How many wait at the moment. */
  get waiting(): number {
    let waiting = this.#unheard.size;
    for (const { size } of this.#written.values()) waiting += size;
    return waiting;
  }

  /** Comes when the record is written next, with its revision. What is not written, because it is too large, never does. */
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

  /** Comes when everything up to this revision has been heard of. */
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

  /** Everything is listed again; in another making of the bucket, revisions begin again. */
  restart(): void {
    this.#upTo = 0;
  }
}
