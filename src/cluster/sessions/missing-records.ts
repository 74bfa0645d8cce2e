import type { StateRecord } from '../../bus/shared-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import { lastMoment } from './write-behind.ts';

const AGAIN_MS = 1_000;
const LAST_AGAIN_MS = 100;
const MAX_AT_ONCE = 32;

export interface KnownRecords {
  /** Nothing was received of it meanwhile, and nothing waits to be written. */
  isMissing(key: string): boolean;
  heard(record: StateRecord): void;
  gone(key: string): void;
  /** Null: unknown here. */
  recall(key: string): Buffer | null;
}

type Deps = Pick<ClusterDeps, 'clock' | 'logger'>;

/**
 * Records known before an outage and not listed since. A store that has just started may end its listing too early, and ending a
 * record ends its session at all nodes: so each is read. What was not deleted is written again.
 */
export class MissingRecords {
  readonly #deps: Deps;
  readonly #bucket: Pick<LazyBucket, 'look' | 'restore'>;
  readonly #name: string;
  readonly #known: KnownRecords;
  readonly #left: Set<string>;
  #restored = 0;
  #stopAgain: (() => void) | null = null;
  #againMs = AGAIN_MS;
  #over = false;

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

  stop(): void {
    this.#over = true;
    this.#stopAgain?.();
  }

  /** Waits a moment: perhaps no other node knows them. */
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

  /** False: the store did not answer. */
  async #seekSome(keys: Iterable<string>): Promise<boolean> {
    const { logger } = this.#deps;
    for (const key of keys) {
      if (this.#over) break;
      this.#left.delete(key);
      try {
        await this.#settle(key);
      } catch (error) {
        logger.debug('record_not_settled', { bucket: this.#name, error: String(error) });
        // The store would never accept it.
        if (error instanceof GatewayError && error.code === 'TOO_LARGE') continue;
        // Last, so that it delays no other.
        this.#left.add(key);
        return false;
      }
    }
    return true;
  }

  /** Only a write over nothing shows whether it exists; mostly it was lost. */
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
