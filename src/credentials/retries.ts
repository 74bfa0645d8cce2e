import type { Clock } from '../model/clock.ts';

/** The first; each one after it waits twice as long, up to the last. */
export const RETRY_MS = 10_000;
const LONGEST_MS = 300_000;

/** Tries failed renewals again, one of each key at a time: a server comes back by itself when what was away has come back. */
export class RenewalRetries {
  readonly #clock: Clock;
  readonly #failed = new Map<string, { readonly ms: number; armed: boolean }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  later(key: string, renew: () => Promise<boolean>): void {
    const before = this.#failed.get(key);
    if (before?.armed === true) return;
    const retry = { ms: Math.min(before === undefined ? RETRY_MS : before.ms * 2, LONGEST_MS), armed: true };
    this.#failed.set(key, retry);
    this.#clock.after(retry.ms, () => {
      retry.armed = false;
      // Meanwhile it may have been renewed, or forgotten.
      if (this.#failed.get(key) === retry) void renew();
    });
  }

  over(key: string): void {
    this.#failed.delete(key);
  }
}
