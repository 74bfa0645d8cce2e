import type { StateRecord } from '../../bus/shared-state.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import { lastMoment } from './last-moment.ts';

const AGAIN_MS = 1_000;
/** While this node ends. */
const LAST_AGAIN_MS = 100;
const MAX_AT_ONCE = 32;

export interface MissingRecordsDeps {
  readonly bucket: Pick<LazyBucket, 'look' | 'restore'>;
  /** Of the bucket. */
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether nothing was heard of it meanwhile, and nothing of it is about to be written. */
  readonly isMissing: (key: string) => boolean;
  readonly heard: (record: StateRecord) => void;
  readonly gone: (key: string) => void;
  /** What is known of it here; null: nothing. */
  readonly recall: (key: string) => Buffer | null;
}

/**
 * Records that were there before an outage, and of which the store has not told since. A store that has just begun again was
 * seen to have told everything before it had. Whoever takes a record for gone ends what it stands for, at all nodes: so each
 * is looked for, and what nobody has deleted is not gone. It was lost, and is written again.
 */
export class MissingRecords {
  readonly #deps: MissingRecordsDeps;
  /** Still to be looked for. */
  readonly #left: Set<string>;
  readonly #lost: boolean;
  #restored = 0;
  #stopAgain: (() => void) | null = null;
  #againMs = AGAIN_MS;
  #over = false;

  /** `lost`: the store has lost everything, so that only what nodes have written again is there. */
  constructor(deps: MissingRecordsDeps, keys: Iterable<string>, lost: boolean) {
    this.#deps = deps;
    this.#left = new Set(keys);
    this.#lost = lost;
    void this.#seek();
  }

  /** Everything is told anew. */
  stop(): void {
    this.#over = true;
    this.#stopAgain?.();
  }

  /** What is not written again yet has a moment to be: perhaps no other node knows of it. */
  async close(): Promise<void> {
    this.#againMs = LAST_AGAIN_MS;
    if (this.#stopAgain !== null) this.#again();
    await lastMoment(this.#deps.clock, () => this.#over);
    this.stop();
  }

  async #seek(): Promise<void> {
    const { clock, logger, name: bucket } = this.#deps;
    const keys = this.#left.values();
    const seeking = Array.from({ length: MAX_AT_ONCE }, () => this.#seekSome(keys));
    const all = (await Promise.all(seeking)).every((answered) => answered);
    const records = this.#restored;
    this.#restored = 0;
    if (records > 0) logger.warn('records_missing', { bucket, records, effect: 'they were written again' });
    if (all) this.#over = true;
    else if (!this.#over) this.#stopAgain = clock.after(this.#againMs, () => this.#again());
  }

  #again(): void {
    this.#stopAgain?.();
    this.#stopAgain = null;
    void this.#seek();
  }

  /** One after the other; false: the store did not answer. */
  async #seekSome(keys: Iterable<string>): Promise<boolean> {
    const { logger, name: bucket } = this.#deps;
    for (const key of keys) {
      if (this.#over) break;
      this.#left.delete(key);
      try {
        await this.#settle(key);
      } catch (error) {
        logger.debug('record_not_looked_for', { bucket, error: String(error) });
        // The store would never take it.
        if (error instanceof GatewayError && error.code === 'TOO_LARGE') continue;
        // After all others, so that it does not keep them waiting.
        this.#left.add(key);
        return false;
      }
    }
    return true;
  }

  async #settle(key: string): Promise<void> {
    const { bucket, recall } = this.#deps;
    if (!this.#lost && (await this.#isSettled(key))) return;
    const value = this.#concerns(key) ? recall(key) : null;
    if (value === null) return;
    if ((await bucket.restore(key, value)) !== null) this.#restored++;
    // Another node was faster, or it was deleted after all.
    else if (!(await this.#isSettled(key))) throw new Error(`${key} is not there, and cannot be written`);
  }

  /** What is there is heard, and what somebody deleted is gone. False: there is nothing. */
  async #isSettled(key: string): Promise<boolean> {
    const { bucket, heard, gone } = this.#deps;
    if (!this.#concerns(key)) return true;
    const there = await bucket.look(key);
    if (!this.#concerns(key)) return true;
    if (there === null) return false;
    if (there === 'deleted') gone(key);
    else heard(there);
    return true;
  }

  #concerns(key: string): boolean {
    return !this.#over && this.#deps.isMissing(key);
  }
}
