import type { Clock } from '../../model/clock.ts';

/** The part of the logger that the rooms below need. */
export interface ProcessLog {
  info(event: string, fields?: Record<string, unknown>): void;
  warn(event: string, fields?: Record<string, unknown>): void;
}

/** Lets at most `count` through per interval and says with the next how many were held back. */
export class LogLimit {
  readonly #clock: Clock;
  readonly #count: number;
  readonly #intervalMs: number;
  #windowEnds = Number.NEGATIVE_INFINITY;
  #left = 0;
  #heldBack = 0;

  constructor(clock: Clock, count: number, intervalMs: number) {
    this.#clock = clock;
    this.#count = count;
    this.#intervalMs = intervalMs;
  }

  /** The number held back since the last one let through, or null when this one is held back. */
  take(): number | null {
    const now = this.#clock.now();
    if (now >= this.#windowEnds) {
      this.#windowEnds = now + this.#intervalMs;
      this.#left = this.#count;
    }
    if (this.#left === 0) {
      this.#heldBack++;
      return null;
    }
    this.#left--;
    const heldBack = this.#heldBack;
    this.#heldBack = 0;
    return heldBack;
  }
}
