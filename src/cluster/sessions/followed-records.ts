import type { SharedState, StateRecord } from '../../bus/shared-state.ts';
import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { LazyBucket } from '../lazy-bucket.ts';
import { Progress, type Wait } from './progress.ts';
import { WritesBehind, type Written } from './writes-behind.ts';

const AGAIN_MS = 1_000;
const MAX_WAITING = 10_000;

export interface FollowedRecordsDeps {
  readonly state: SharedState;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bucket: string;
  /** A record that nobody wrote for so long is gone. */
  readonly keptMs: number;
  readonly maxValueBytes: number;
  /** What waits to be written while the store is away. */
  readonly maxWaiting?: number;
  /** What was written, here or at another node. */
  readonly heard: (key: string, value: Buffer) => void;
  /** It was heard of, and was deleted. */
  readonly gone: (key: string) => void;
  /** Everything that is there was told; `again`: after an outage. */
  readonly told?: (again: boolean) => void;
  /** The store has lost something, or everything: what is known here and not told is to be written again. */
  readonly lost: () => void;
  /**
   * What this node has to say and what is there, put together. With it, what is heard of a record that is being written
   * waits until that is done, and what another node's word has made of it is heard then.
   */
  readonly merged?: (key: string, value: Buffer, there: Buffer) => Buffer;
}

/** Small records that every node follows, so that looking one up costs nothing. Written behind. */
export class FollowedRecords {
  readonly #deps: FollowedRecordsDeps;
  readonly #bucket: LazyBucket;
  readonly #writes: WritesBehind;
  /** Heard of since everything was told last. */
  #told = new Set<string>();
  /** Heard of before that, and not since. */
  readonly #untold = new Set<string>();
  /** Heard of while something of this node's own was being written. */
  readonly #late = new Map<string, StateRecord>();
  readonly #progress = new Progress();
  #watch: { close(): void } | null = null;
  #stopWatch: (() => void) | null = null;
  #stopLook: (() => void) | null = null;
  /** How often it was begun to tell everything. */
  #telling = 0;
  /** The making of the bucket that everything was told of; null before. */
  #incarnation: string | null = null;
  #closed = false;

  constructor(deps: FollowedRecordsDeps) {
    this.#deps = deps;
    const { state, clock, logger, bucket: name, keptMs: ttlMs, maxValueBytes, maxWaiting = MAX_WAITING, merged } = deps;
    this.#bucket = new LazyBucket(state, name, { ttlMs, maxValueBytes });
    const merging = merged === undefined ? {} : { merged };
    this.#writes = new WritesBehind({
      bucket: this.#bucket,
      name,
      clock,
      logger,
      maxWaiting,
      known: (key) => this.#told.has(key) || this.#untold.has(key),
      wrote: (key, written) => this.#wrote(key, written),
      ...merging,
    });
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

  /** What waits to be written; null: to be deleted; undefined: nothing. */
  waiting(key: string): Buffer | null | undefined {
    return this.#writes.waiting(key);
  }

  /** As it is in the store. Rejects with GatewayError. */
  get(key: string): Promise<StateRecord | null> {
    return this.#bucket.get(key);
  }

  /** Heard of since everything was told last. */
  isTold(key: string): boolean {
    return this.#told.has(key);
  }

  async close(): Promise<void> {
    await this.#writes.close();
    this.#closed = true;
    this.#watch?.close();
    this.#stopWatch?.();
    this.#stopLook?.();
  }

  #heard(record: StateRecord): void {
    const { key, value } = record;
    this.#told.add(key);
    this.#untold.delete(key);
    if (this.#deps.merged !== undefined && this.#writes.has(key)) this.#late.set(key, record);
    else this.#deps.heard(key, value);
  }

  #gone(key: string): void {
    this.#late.delete(key);
    const untold = this.#untold.delete(key);
    if (this.#told.delete(key) || untold) this.#deps.gone(key);
  }

  #wrote(key: string, { revision, value, merged }: Written): void {
    const late = this.#late.get(key);
    this.#late.delete(key);
    this.#progress.wrote(key, revision);
    if (value === null) return;
    if (late !== undefined && late.revision > revision) this.#deps.heard(key, late.value);
    else if (merged) this.#deps.heard(key, value);
  }

  /** Everything was told, for the first time or again: what was not was deleted, or lost. */
  #toldAll(incarnation: string): void {
    const again = this.#incarnation !== null;
    const lost = again && this.#incarnation !== incarnation;
    this.#incarnation = incarnation;
    this.#deps.told?.(again);
    if (lost) this.#lost();
    else void this.#lookForUntold();
  }

  /**
   * A store that has just begun again was seen to have told everything before it had. Whoever takes a record for gone ends
   * what it stands for, at all nodes: so it is looked for before, and what nobody has deleted is not gone.
   */
  async #lookForUntold(): Promise<void> {
    const telling = this.#telling;
    for (const key of [...this.#untold]) {
      const there = await this.#bucket.look(key).catch(() => undefined);
      if (telling !== this.#telling || this.#closed) return;
      if (there === undefined) {
        this.#stopLook = this.#deps.clock.after(AGAIN_MS, () => void this.#lookForUntold());
        return;
      }
      if (!this.#untold.has(key)) continue;
      if (there === 'deleted') this.#gone(key);
      else if (there !== null) this.#heard(there);
    }
    if (this.#untold.size === 0) return;
    const { logger, bucket } = this.#deps;
    logger.warn('records_missing', { bucket, records: this.#untold.size, effect: 'they are written again' });
    this.#lost();
  }

  #lost(): void {
    this.#deps.lost();
    this.#untold.clear();
  }

  async #follow(): Promise<void> {
    const { clock, logger, bucket } = this.#deps;
    try {
      const watch = await this.#bucket.watch('>', {
        put: (record) => {
          this.#heard(record);
          this.#progress.heard(record.revision);
        },
        gone: (key, revision) => {
          this.#gone(key);
          this.#progress.heard(revision);
        },
        onBegin: () => {
          this.#telling++;
          this.#stopLook?.();
          for (const key of this.#told) this.#untold.add(key);
          this.#told = new Set();
          // Revisions of another making tell nothing.
          this.#late.clear();
          this.#progress.beginAnew();
        },
        onReady: (incarnation) => this.#toldAll(incarnation),
      });
      if (this.#closed) watch.close();
      else this.#watch = watch;
    } catch (error) {
      if (this.#closed) return;
      logger.debug('records_not_followed', { bucket, error: String(error) });
      this.#stopWatch = clock.after(AGAIN_MS, () => void this.#follow());
    }
  }
}
