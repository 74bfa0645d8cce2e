import type { StateRecord } from '../../bus/shared-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import { lastMoment } from './write-behind.ts';

const AGAIN_MS = 1_000;
/** While this node ends. */
const LAST_AGAIN_MS = 100;
const MAX_AT_ONCE = 32;

/** What is known of the records here. */
export interface KnownRecords {
  /** Whether nothing was heard of it meanwhile, and nothing of it is about to be written. */
  isMissing(key: string): boolean;
  heard(record: StateRecord): void;
  gone(key: string): void;
  /** What is known of it here; null: nothing. */
  recall(key: string): Buffer | null;
}

type Deps = Pick<ClusterDeps, 'clock' | 'logger'>;

/**
 * Records that were there before an outage, and which the store has not listed since. A store that has just begun again was
 * seen to end its listing too early. A node that takes a record for gone ends what it belongs to, at all nodes: so each
 * is asked for, and what was not deleted is not gone. What was lost is written again.
 */
export class MissingRecords {
  readonly #deps: Deps;
  readonly #bucket: Pick<LazyBucket, 'look' | 'restore'>;
  readonly #name: string;
  readonly #known: KnownRecords;
  /** Still to be asked for. */
  readonly #left: Set<string>;
  #restored = 0;
  #stopAgain: (() => void) | null = null;
  #againMs = AGAIN_MS;
  #over = false;

  /** `name`: of the bucket. */
  constructor(
    deps: Deps,
    bucket: Pick<LazyBucket, 'look' | 'restore'>,
    name: string,
    known: KnownRecords,
    keys: Iterable<string>,
  ) {
    this.#deps = deps;
    this.#bucket = bucket;
    this.#name = name;
    this.#known = known;
    this.#left = new Set(keys);
    void this.#seek();
  }

  /** Everything is listed anew. */
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
    const { clock, logger } = this.#deps;
    const keys = this.#left.values();
    const seeking = Array.from({ length: MAX_AT_ONCE }, () => this.#seekSome(keys));
    const all = (await Promise.all(seeking)).every((answered) => answered);
    const records = this.#restored;
    this.#restored = 0;
    if (records > 0) logger.warn('records_missing', { bucket: this.#name, records, effect: 'they were written again' });
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
    const { logger } = this.#deps;
    for (const key of keys) {
      if (this.#over) break;
      this.#left.delete(key);
      try {
        await this.#settle(key);
      } catch (error) {
        logger.debug('record_not_settled', { bucket: this.#name, error: String(error) });
        // The store would never take it.
        if (error instanceof GatewayError && error.code === 'TOO_LARGE') continue;
        // After all others, so that it does not keep them waiting.
        this.#left.add(key);
        return false;
      }
    }
    return true;
  }

  /** Whether it is there, only a write can tell that is made over nothing; mostly it was lost, and that is all. */
  async #settle(key: string): Promise<void> {
    const value = this.#concerns(key) ? this.#known.recall(key) : null;
    if (value === null) return;
    if ((await this.#bucket.restore(key, value)) !== null) {
      this.#restored++;
      return;
    }
    const there = await this.#bucket.look(key);
    if (!this.#concerns(key)) return;
    if (there === null) throw new Error(`${key} is not found, and cannot be written`);
    if (there === 'deleted') this.#known.gone(key);
    else this.#known.heard(there);
  }

  #concerns(key: string): boolean {
    return !this.#over && this.#known.isMissing(key);
  }
}
