import { chunks } from '../../model/chunks.ts';
import type { Clock } from '../../model/clock.ts';

const GATHER_MS = 50;
/** That many ids fit into one message. */
export const MAX_PER_MESSAGE = 1_000;

/** Passes on the first id at once, and the ids of each following `gatherMs` in one batch. */
export class IdBatcher {
  readonly #clock: Clock;
  readonly #pass: (ids: readonly string[]) => void;
  readonly #gatherMs: number;
  readonly #ids = new Set<string>();
  #pausing = false;

  constructor(clock: Clock, pass: (ids: readonly string[]) => void, gatherMs = GATHER_MS) {
    this.#gatherMs = gatherMs;
    this.#clock = clock;
    this.#pass = pass;
  }

  add(id: string): void {
    this.#ids.add(id);
    if (!this.#pausing) this.#flush();
  }

  #flush(): void {
    const ids = [...this.#ids];
    this.#ids.clear();
    this.#pausing = ids.length > 0;
    if (!this.#pausing) return;
    this.#clock.after(this.#gatherMs, () => this.#flush());
    for (const some of chunks(ids, MAX_PER_MESSAGE)) this.#pass(some);
  }
}
