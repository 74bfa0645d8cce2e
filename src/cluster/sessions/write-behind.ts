import { type Clock, pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { LazyBucket } from '../lazy-bucket.ts';

const AGAIN_MS = 1_000;
const LAST_AGAIN_MS = 100;
const MAX_WRITES = 64;
/** For concurrent writers of one record. */
const ATTEMPTS = 8;

export interface WrittenRecords {
  known(key: string): boolean;
  merged(key: string, value: Buffer, there: Buffer): Buffer;
  /** Nothing more of it waits. */
  wrote(key: string, written: Written): void;
}

type Deps = Pick<ClusterDeps, 'clock' | 'logger'>;

export interface Written {
  /** 0: deleted. */
  readonly revision: number;
  readonly value: Buffer | null;
  /** Another node's change is in it, or deleted it. */
  readonly merged: boolean;
}

/** Writes records in the background: each in order with the newest value last, a few at a time, again after an outage. */
export class WriteBehind {
  readonly #deps: Deps;
  readonly #bucket: LazyBucket;
  readonly #name: string;
  readonly #maxWaiting: number;
  readonly #records: WrittenRecords;
  /** Null deletes; the newest value wins. */
  readonly #waiting = new Map<string, Buffer | null>();
  readonly #writing = new Map<string, Buffer | null>();
  #stopRetry: (() => void) | null = null;
  #againMs = AGAIN_MS;
  #closed = false;

  /** `maxWaiting`: beyond it the oldest is not written. */
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

  /** Null: to be deleted; undefined: nothing waits. */
  waiting(key: string): Buffer | null | undefined {
    const waiting = this.#waiting.get(key);
    return waiting === undefined ? this.#writing.get(key) : waiting;
  }

  /** What is received meanwhile may be older. */
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

  /** A deleted key never comes back. */
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
    // The store would never accept it.
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

/** Three seconds: the store may just be returning. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400, 800, 1_500];

/** Gives what is still to be written a moment while this node ends. */
export async function lastMoment(clock: Clock, isDone: () => boolean): Promise<void> {
  for (const waitMs of LOOKS_MS) {
    if (isDone()) return;
    await pause(clock, waitMs);
  }
}
