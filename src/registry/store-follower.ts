import type { Clock } from '../model/clock.ts';
import type { RunTimeStore } from '../store/run-time-store/run-time-store.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Within 3 s every node has what one of them wrote, whatever hint was lost. */
const EVERY_MS = 2_000;
/** Reads after hints are no closer than this, and take no more than a twentieth of the time: any node may send those. */
const APART_MS = 100;
const PAUSE = 20;

interface StoreFollowerDeps {
  readonly runTimeStore: RunTimeStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The store has changed: read anew. Rejects where that fails, and is called again then. */
  readonly changed: () => Promise<void>;
}

/**
 * Looks every 2 s, and at once on a hint, whether another node wrote to the shared store. Revisions only grow, so order
 * and repetition of hints do not matter.
 */
export class StoreFollower {
  readonly #deps: StoreFollowerDeps;
  #revision = -1;
  #problem: string | null = null;
  #cancel: () => void = () => {};
  #looking = false;
  /** From one look to the next that a hint asks for. */
  #apartMs = APART_MS;
  #hinted = false;
  #closed = false;

  constructor(deps: StoreFollowerDeps) {
    this.#deps = deps;
  }

  /** Why the store could not be read the last time; null while it can. */
  get problem(): string | null {
    return this.#problem;
  }

  start(): void {
    this.#later(EVERY_MS);
  }

  /** A node says that there is something new; a hint. */
  hint(): void {
    if (this.#hinted) return;
    this.#hinted = true;
    if (!this.#looking) this.#later(this.#apartMs);
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #later(ms: number): void {
    this.#cancel();
    if (!this.#closed) this.#cancel = this.#deps.clock.after(ms, () => void this.#lookAndGoOn());
  }

  async #lookAndGoOn(): Promise<void> {
    const { clock } = this.#deps;
    const begun = clock.now();
    this.#looking = true;
    this.#hinted = false;
    await this.#look();
    this.#looking = false;
    this.#apartMs = Math.min(Math.max(APART_MS, PAUSE * (clock.now() - begun)), EVERY_MS);
    this.#later(this.#hinted ? this.#apartMs : EVERY_MS);
  }

  async #look(): Promise<void> {
    const { runTimeStore, changed, logger } = this.#deps;
    try {
      const { revision } = await runTimeStore.read([]);
      if (revision !== this.#revision) await changed();
      this.#revision = revision;
      if (this.#problem !== null) logger.info('store_reached_again', {});
      this.#problem = null;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (this.#problem === null)
        logger.error('store_not_reached', { reason, effect: 'what was desired before holds' });
      this.#problem = reason;
    }
  }
}
