import type { Clock } from '../../model/clock.ts';

/** What is refused is counted, and told of once in this time. */
const EVERY_MS = 1_000;

/** Messages that were not believed, or could not be read. */
export class Refused {
  readonly #clock: Clock;
  readonly #tell: (subject: string, reason: string) => void;
  #toldAt = Number.NEGATIVE_INFINITY;
  count = 0;

  constructor(clock: Clock, tell: (subject: string, reason: string) => void) {
    this.#clock = clock;
    this.#tell = tell;
  }

  add(subject: string, reason: string): void {
    this.count++;
    const now = this.#clock.now();
    if (now - this.#toldAt < EVERY_MS) return;
    this.#toldAt = now;
    this.#tell(subject, reason);
  }
}
