import type { SharedState } from '../../bus/shared-state.ts';
import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { LazyBucket } from '../lazy-bucket.ts';

const AGAIN_MS = 1_000;
/** One after the other at most so many; the rest wait. */
const MAX_WRITES = 64;
/** What waits to be written while the store is away; beyond, the oldest is not written. */
const MAX_WAITING = 10_000;
/** What is not written yet has a moment to be when this node ends. */
const LAST_MS: readonly number[] = [25, 50, 100, 200, 400];

export interface FollowedRecordsDeps {
  readonly state: SharedState;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bucket: string;
  /** A record that nobody wrote for so long is gone. */
  readonly keptMs: number;
  readonly maxValueBytes: number;
  /** What was written, here or at another node. */
  readonly heard: (key: string, value: Buffer) => void;
  /** It is not there any more. */
  readonly gone: (key: string) => void;
  /** The store has lost everything, and began anew: what is known here is to be written again. */
  readonly lost: () => void;
}

/**
 * Small records that every node follows, so that looking one up costs nothing. Written behind, of one record one thing
 * after the other, and again while the store cannot be reached.
 */
export class FollowedRecords {
  readonly #deps: FollowedRecordsDeps;
  readonly #bucket: LazyBucket;
  /** To be written; null: to be deleted. The newest of each wins. */
  readonly #unwritten = new Map<string, Buffer | null>();
  readonly #writing = new Set<string>();
  #watch: { close(): void } | null = null;
  #stopRetry: (() => void) | null = null;
  #stopWatch: (() => void) | null = null;
  /** The making of the bucket that everything was told of; empty before. */
  #incarnation = '';
  #closed = false;

  constructor(deps: FollowedRecordsDeps) {
    this.#deps = deps;
    const { state, bucket, keptMs: ttlMs, maxValueBytes } = deps;
    this.#bucket = new LazyBucket(state, bucket, { ttlMs, maxValueBytes });
    void this.#follow();
  }

  put(key: string, value: Buffer | null): void {
    this.#unwritten.delete(key);
    this.#unwritten.set(key, value);
    if (this.#unwritten.size > MAX_WAITING) this.#unwritten.delete(this.#unwritten.keys().next().value!);
    this.#write();
  }

  /** Whether something of this record is to be written still, so that what is heard of it is older. */
  waits(key: string): boolean {
    return this.#unwritten.has(key) || this.#writing.has(key);
  }

  async close(): Promise<void> {
    for (const waitMs of LAST_MS) {
      if (this.#unwritten.size === 0 && this.#writing.size === 0) break;
      await new Promise<void>((resolve) => this.#deps.clock.after(waitMs, resolve));
    }
    this.#closed = true;
    this.#watch?.close();
    this.#stopRetry?.();
    this.#stopWatch?.();
  }

  #write(): void {
    for (const [key, value] of this.#unwritten) {
      if (this.#writing.size >= MAX_WRITES || this.#closed || this.#stopRetry !== null) return;
      if (this.#writing.has(key)) continue;
      this.#unwritten.delete(key);
      this.#writing.add(key);
      void this.#writeOne(key, value).then(
        () => {
          this.#writing.delete(key);
          this.#write();
        },
        (error) => this.#failed(key, value, error),
      );
    }
  }

  /** Everything that is there was told, for the first time or again after an outage. */
  async #told(): Promise<void> {
    const incarnation = await this.#bucket.readIncarnation();
    const lost = this.#incarnation !== '' && incarnation !== this.#incarnation;
    this.#incarnation = incarnation;
    if (lost && !this.#closed) this.#deps.lost();
  }

  async #writeOne(key: string, value: Buffer | null): Promise<void> {
    if (value === null) await this.#bucket.delete(key);
    else await this.#bucket.put(key, value);
  }

  #failed(key: string, value: Buffer | null, error: unknown): void {
    this.#writing.delete(key);
    if (!this.#unwritten.has(key)) this.#unwritten.set(key, value);
    if (this.#closed) return;
    this.#deps.logger.debug('record_not_written', { bucket: this.#deps.bucket, error: String(error) });
    this.#stopRetry ??= this.#deps.clock.after(AGAIN_MS, () => {
      this.#stopRetry = null;
      this.#write();
    });
  }

  async #follow(): Promise<void> {
    const { clock, logger, bucket, heard, gone } = this.#deps;
    try {
      const watch = await this.#bucket.watch('>', {
        put: ({ key, value }) => heard(key, value),
        gone: (key) => gone(key),
        onReady: () => void this.#told().catch(() => {}),
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
