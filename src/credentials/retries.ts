import type { Clock } from '../model/clock.ts';

/** The first delay; each later one is twice as long, up to the maximum. */
export const RETRY_MS = 10_000;
const LONGEST_MS = 300_000;

/** Retries failed renewals, one per key at a time, so that a server recovers by itself. */
export class RenewalRetries {
  readonly #clock: Clock;
  readonly #failed = new Map<string, { readonly ms: number; armed: boolean }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  schedule(key: string, renew: () => Promise<boolean>): void {
    const before = this.#failed.get(key);
    if (before?.armed === true) return;
    const retry = { ms: Math.min(before === undefined ? RETRY_MS : before.ms * 2, LONGEST_MS), armed: true };
    this.#failed.set(key, retry);
    this.#clock.after(retry.ms, () => {
      retry.armed = false;
      // The credential may have been renewed meanwhile.
      if (this.#failed.get(key) === retry) void renew();
    });
  }

  clear(key: string): void {
    this.#failed.delete(key);
  }
}
