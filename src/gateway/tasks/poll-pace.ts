/** Between two polls of a task whose server names no interval. */
const DEFAULT_MS = 1_000;
/** A server may ask for any interval; this is what is believed. */
const MIN_MS = 50;
const MAX_MS = 60_000;
/** Without a change the pauses grow up to so many times the first. */
const MAX_GROWTH = 8;
const GROWTH = 1.5;
const JITTER = 0.2;

/**
 * How long to wait before a task is polled again: never less than its server asks for, longer while nothing changes or
 * the server cannot be reached, and never for many tasks at one instant (proto:C7).
 */
export class PollPace {
  readonly #unit: () => number;
  #growth = 1;

  /** `unit` gives numbers in [0, 1). */
  constructor(unit: () => number) {
    this.#unit = unit;
  }

  next(askedMs: number | null, changed: boolean): number {
    if (changed) this.#growth = 1;
    const base = Math.min(Math.max(askedMs ?? DEFAULT_MS, MIN_MS), MAX_MS);
    const pause = Math.min(base * this.#growth, Math.max(base, MAX_MS));
    this.#growth = Math.min(this.#growth * GROWTH, MAX_GROWTH);
    return Math.round(pause * (1 + JITTER * this.#unit()));
  }
}
