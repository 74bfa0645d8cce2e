import type { Clock } from '../../model/clock.ts';

/**
 * Tells a server that now and then writes a log line to its standard output from one that floods it: a leaking bucket
 * that holds what is tolerated in a minute and empties evenly over one.
 */
export class JunkMeter {
  readonly #clock: Clock;
  readonly #bytesPerMinute: number;
  #level = 0;
  #at: number;

  constructor(clock: Clock, bytesPerMinute: number) {
    this.#clock = clock;
    this.#bytesPerMinute = bytesPerMinute;
    this.#at = clock.now();
  }

  /** Counts junk; true when there is too much of it. */
  add(bytes: number): boolean {
    const now = this.#clock.now();
    this.#level = Math.max(0, this.#level - ((now - this.#at) / 60_000) * this.#bytesPerMinute) + bytes;
    this.#at = now;
    return this.#level > this.#bytesPerMinute;
  }
}
