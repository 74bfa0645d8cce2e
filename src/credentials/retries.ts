import type { Clock } from '../model/clock.ts';

/** The first delay; each later one is twice as long, up to the maximum. */
export const RETRY_MS = 10_000;
const LONGEST_MS = 300_000;
/** For this time after a renewal by this node, a server that refuses its tokens is not restarted for another renewal. */
const OWN_MS = 600_000;

/** Retries failed renewals of this node, one per key at a time, so that a server recovers by itself; notes successful ones. */
export class RenewalRetries {
  readonly #clock: Clock;
  readonly #failed = new Map<string, { readonly ms: number; armed: boolean }>();
  readonly #succeededAt = new Map<string, number>();

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

  succeeded(key: string): void {
    this.#failed.delete(key);
    this.#succeededAt.set(key, this.#clock.now());
  }

  /** Whether this node has renewed the tokens itself: a server that still refuses them would refuse the next ones as well. */
  renewedLately(key: string): boolean {
    return this.#clock.now() - (this.#succeededAt.get(key) ?? -OWN_MS) < OWN_MS;
  }
}
