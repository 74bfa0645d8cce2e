import type { Clock } from '../model/clock.ts';
import { messageOf } from '../model/thrown.ts';
import type { RunTimeStore } from '../store/run-time-store/run-time-store.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Every node reads within 3 s what another node wrote, even if hints are lost. */
const EVERY_MS = 2_000;
/** Reads after hints, which any node may send, are at least this far apart and take at most a twentieth of the time. */
const APART_MS = 100;
const REST_FACTOR = 20;

interface StoreFollowerDeps {
  readonly runTimeStore: RunTimeStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The store has changed: read it again. If it rejects, it is called again. */
  readonly onChange: () => Promise<void>;
}

/**
 * Polls every 2 s, and at once after a hint, whether another node wrote to the shared store. Revisions only increase, so the
 * order and repetition of hints do not matter.
 */
export class StoreFollower {
  readonly #deps: StoreFollowerDeps;
  #revision = -1;
  #problem: string | null = null;
  #cancel: () => void = () => {};
  #looking = false;
  /** Delay before the read that a hint requests. */
  #apartMs = APART_MS;
  #hinted = false;
  #closed = false;

  constructor(deps: StoreFollowerDeps) {
    this.#deps = deps;
  }

  /** Why the last read of the store failed; null if it succeeded. */
  get problem(): string | null {
    return this.#problem;
  }

  start(): void {
    this.#schedule(EVERY_MS);
  }

  /** Call when a node reports a change; only a hint, because the report may be false. */
  hint(): void {
    if (this.#hinted) return;
    this.#hinted = true;
    if (!this.#looking) this.#schedule(this.#apartMs);
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #schedule(ms: number): void {
    this.#cancel();
    if (!this.#closed) this.#cancel = this.#deps.clock.after(ms, () => void this.#pollAndReschedule());
  }

  async #pollAndReschedule(): Promise<void> {
    const { clock } = this.#deps;
    const startedAt = clock.now();
    this.#looking = true;
    this.#hinted = false;
    await this.#look();
    this.#looking = false;
    this.#apartMs = Math.min(Math.max(APART_MS, REST_FACTOR * (clock.now() - startedAt)), EVERY_MS);
    this.#schedule(this.#hinted ? this.#apartMs : EVERY_MS);
  }

  async #look(): Promise<void> {
    const { runTimeStore, onChange, logger } = this.#deps;
    try {
      const { revision } = await runTimeStore.read([]);
      if (revision !== this.#revision) await onChange();
      this.#revision = revision;
      if (this.#problem !== null) logger.info('store_reached_again', {});
      this.#problem = null;
    } catch (error) {
      const reason = messageOf(error);
      if (this.#problem === null)
        logger.error('store_not_reached', { reason, effect: 'what was desired before holds' });
      this.#problem = reason;
    }
  }
}
