import type { Clock } from '../../model/clock.ts';

/** How often everything that has a deadline is looked at. */
export const TICK_MS = 1_000;

/**
 * A deadline that has a timer of its own only in its last second: most of what has one ends long before. Its owner is
 * ticked once a second.
 */
export class Deadline {
  readonly #clock: Clock;
  #at: number;
  readonly #owner: { expired(): void };
  #disarm: (() => void) | null = null;

  constructor(clock: Clock, ms: number, owner: { expired(): void }) {
    this.#clock = clock;
    this.#owner = owner;
    this.#at = clock.now() + ms;
    if (ms <= TICK_MS) this.#arm(ms);
  }

  tick(): void {
    const left = this.#at - this.#clock.now();
    if (left <= TICK_MS && this.#disarm === null) this.#arm(Math.max(0, left));
  }

  /** It is so far off again. Infinity: it stands still until it is moved once more. */
  move(ms: number): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#at = this.#clock.now() + ms;
    if (ms <= TICK_MS) this.#arm(ms);
  }

  /** It does not matter any more. */
  stop(): void {
    this.#disarm?.();
  }

  #arm(ms: number): void {
    this.#disarm = this.#clock.after(ms, () => this.#owner.expired());
  }
}
