import { setImmediate } from 'node:timers/promises';

/** How long work on definitions may keep everything else waiting. */
const SLICE_MS = 5;

/** Lets others run whenever work in small steps has taken a while. */
export class Pace {
  readonly #now: () => number;
  #since: number;

  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** After each step. null: go on at once. */
  step(): Promise<void> | null {
    return this.#now() - this.#since < SLICE_MS ? null : this.#rest();
  }

  async #rest(): Promise<void> {
    await setImmediate();
    this.#since = this.#now();
  }
}
