import { setImmediate } from 'node:timers';

/** How long work that is done in small steps may keep everything else waiting. */
const SLICE_MS = 5;

/** Gives way to others when small steps took a while. Works with one `Pace` share its slices and take turns. */
export class Pace {
  readonly #now: () => number;
  readonly #waiting: (() => void)[] = [];
  #since: number;
  #turning = false;

  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** After each step. null: go on at once. */
  step(): Promise<void> | null {
    return this.#now() - this.#since < SLICE_MS ? null : this.rest();
  }

  /** Goes on in a turn of its own, whatever was done in this one. */
  rest(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#turnLater();
    });
  }

  #turnLater(): void {
    if (this.#turning) return;
    this.#turning = true;
    setImmediate(() => {
      this.#turning = false;
      this.#since = this.#now();
      this.#waiting.shift()!();
      if (this.#waiting.length > 0) this.#turnLater();
    });
  }
}

/** What a flood of one server may keep everything else waiting in one turn of the event loop. */
export const FLOOD_SLICE_MS = 0.5;

/** The pause after a slice. A call takes four turns of the loop and would meet a slice each time. */
export const FLOOD_REST_MS = 2;

/** Where less came in one read the system has nothing more at once: it is taken as it comes. */
export const LARGE_READ_BYTES = 16 * 1024;
