import type { Clock } from '../../model/clock.ts';

/** So long after the last try that failed it is still taken for what cannot be opened. */
export const KEPT_MS = 10_000;
/** Beyond that the oldest are forgotten. */
const MAX_KEYS = 1_024;

/** Whose connection could not be opened a moment ago, beside others of the server that run. */
export class OpenFailures {
  readonly #clock: Clock;
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  failed(key: string): void {
    this.opened(key);
    this.#until.set(key, this.#clock.now() + KEPT_MS);
    const [oldest] = this.#until.keys();
    if (this.#until.size > MAX_KEYS && oldest !== undefined) this.#until.delete(oldest);
  }

  opened(key: string): void {
    this.#until.delete(key);
  }

  has(key: string): boolean {
    const until = this.#until.get(key);
    if (until !== undefined && this.#clock.now() >= until) this.opened(key);
    return this.#until.has(key);
  }
}
