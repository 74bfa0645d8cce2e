import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Pending } from '../calls/pending.ts';

/** How long the end of a pipe may be behind the first request that it did not take. */
const END_FOLLOWS_MS = 500;

/**
 * Requests that a pipe did not take any more. It is about to end, and its end tells more: who tries again then meets the
 * next connection instead of this one, and a failed start knows the exit code. So they are told with it.
 */
export class HeldLosses {
  readonly #clock: Clock;
  #held: Set<() => void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  hold(pending: Pending, error: GatewayError): void {
    const release = () => {
      this.#held?.delete(release);
      disarm();
      pending.lost(error);
    };
    const disarm = this.#clock.after(END_FOLLOWS_MS, release);
    this.#held ??= new Set();
    this.#held.add(release);
  }

  releaseAll(): void {
    for (const release of this.#held ?? []) release();
  }
}
