import { setImmediate } from 'node:timers';

/** How long work in small steps may block the event loop. */
const SLICE_MS = 5;

/** Yields to other work when small steps have taken a while. Tasks that share one `TimeSlicer` share its slices and take turns. */
export class TimeSlicer {
  readonly #now: () => number;
  readonly #waiting: (() => void)[] = [];
  #since: number;
  #turning = false;

  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** Call after each step. Returns null if the caller may go on at once. */
  step(): Promise<void> | null {
    return this.#now() - this.#since < SLICE_MS ? null : this.rest();
  }

  /** Resolves in a later turn of the event loop, one caller per turn. */
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

/** How long the flood of one server may block the event loop in one turn. */
export const FLOOD_SLICE_MS = 0.5;

/** The pause after a slice. A call takes four turns of the event loop and would otherwise meet a slice in each. */
export const FLOOD_REST_MS = 2;

/** A smaller read means that the system has no more data at the moment: the chunk is then processed as it comes. */
export const LARGE_READ_BYTES = 16 * 1024;
