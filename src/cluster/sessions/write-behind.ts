import { type Clock, pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { LazyBucket } from '../lazy-bucket.ts';

const AGAIN_MS = 1_000;
/** While this node ends. */
const LAST_AGAIN_MS = 100;
/** One after the other at most so many; the rest wait. */
const MAX_WRITES = 64;
/** Two who write one record at once go on trying. */
const ATTEMPTS = 8;

/** What is known of the records that are written. */
export interface WrittenRecords {
  /** Whether the record is there, as far as was heard. */
  known(key: string): boolean;
  /** What is to be written on top of what is there. */
  merged(key: string, value: Buffer, there: Buffer): Buffer;
  /** It was written, as this, and nothing more of it waits. */
  wrote(key: string, written: Written): void;
}

type Deps = Pick<ClusterDeps, 'clock' | 'logger'>;

export interface Written {
  /** 0: it was deleted. */
  readonly revision: number;
  /** As it is in the store by now. */
  readonly value: Buffer | null;
  /** Something else than was to be written: another node's word is in it, or another node has deleted it. */
  readonly merged: boolean;
}

/**
 * Writes records in the background: of one record one thing after the other and the newest last, a few at a time,
 * and again while the store cannot be reached.
 */
export class WriteBehind {
  readonly #deps: Deps;
  readonly #bucket: LazyBucket;
  readonly #name: string;
  readonly #maxWaiting: number;
  readonly #records: WrittenRecords;
  /** To be written; null: to be deleted. The newest of each wins. */
  readonly #waiting = new Map<string, Buffer | null>();
  readonly #writing = new Map<string, Buffer | null>();
  #stopRetry: (() => void) | null = null;
  #againMs = AGAIN_MS;
  #closed = false;

  /**
   * `name`: of the bucket. `maxWaiting`: what waits to be written while the store is away; beyond, the oldest is not
   * written.
   */
  constructor(deps: Deps, bucket: LazyBucket, name: string, maxWaiting: number, records: WrittenRecords) {
    this.#deps = deps;
    this.#bucket = bucket;
    this.#name = name;
    this.#maxWaiting = maxWaiting;
    this.#records = records;
  }

  put(key: string, value: Buffer | null): void {
    this.#waiting.delete(key);
    this.#waiting.set(key, value);
    if (this.#waiting.size > this.#maxWaiting) this.#waiting.delete(this.#waiting.keys().next().value!);
    this.#write();
  }

  /** What waits to be written, or is being; null: to be deleted; undefined: nothing. */
  waiting(key: string): Buffer | null | undefined {
    const waiting = this.#waiting.get(key);
    return waiting === undefined ? this.#writing.get(key) : waiting;
  }

  /** Whether something of this record waits or is being written, so that what is heard of it may be older. */
  has(key: string): boolean {
    return this.#waiting.has(key) || this.#writing.has(key);
  }

  async close(): Promise<void> {
    this.#againMs = LAST_AGAIN_MS;
    this.#stopRetry?.();
    this.#retry();
    await lastMoment(this.#deps.clock, () => this.#waiting.size === 0 && this.#writing.size === 0);
    this.#closed = true;
    this.#stopRetry?.();
  }

  #write(): void {
    for (const [key, value] of this.#waiting) {
      if (this.#writing.size >= MAX_WRITES || this.#closed || this.#stopRetry !== null) return;
      if (this.#writing.has(key)) continue;
      this.#waiting.delete(key);
      this.#writing.set(key, value);
      void this.#writeOne(key, value).then(
        (written) => this.#wrote(key, written),
        (error) => this.#failed(key, value, error),
      );
    }
  }

  /** What was deleted never comes back: no key is used for two things. */
  async #writeOne(key: string, value: Buffer | null): Promise<Written> {
    const bucket = this.#bucket;
    if (value === null) {
      await bucket.delete(key);
      return { revision: 0, value, merged: false };
    }
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const there = attempt > 0 || this.#records.known(key) ? await bucket.look(key) : null;
      if (there === 'deleted') return { revision: 0, value: null, merged: true };
      const whole = there === null ? value : this.#records.merged(key, value, there.value);
      const write = there === null ? bucket.restore(key, whole) : bucket.update(key, whole, there.revision);
      const revision = await write;
      if (revision !== null) return { revision, value: whole, merged: whole !== value };
    }
    throw new Error(`others write ${key} of ${this.#name} all the time`);
  }

  #wrote(key: string, written: Written): void {
    this.#writing.delete(key);
    if (!this.#waiting.has(key)) this.#records.wrote(key, written);
    this.#write();
  }

  #failed(key: string, value: Buffer | null, error: unknown): void {
    const { clock, logger } = this.#deps;
    this.#writing.delete(key);
    // The store would never take it.
    if (error instanceof GatewayError && error.code === 'TOO_LARGE') {
      logger.warn('record_too_large', { bucket: this.#name, error: error.message });
      this.#write();
      return;
    }
    if (!this.#waiting.has(key)) this.#waiting.set(key, value);
    if (this.#closed) return;
    logger.debug('record_not_written', { bucket: this.#name, error: String(error) });
    this.#stopRetry ??= clock.after(this.#againMs, () => this.#retry());
  }

  #retry(): void {
    this.#stopRetry = null;
    this.#write();
  }
}

/** Three seconds: the store may just be coming back. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400, 800, 1_500];

/** What is still to be written when this node ends has a moment to be. */
export async function lastMoment(clock: Clock, isDone: () => boolean): Promise<void> {
  for (const waitMs of LOOKS_MS) {
    if (isDone()) return;
    await pause(clock, waitMs);
  }
}
