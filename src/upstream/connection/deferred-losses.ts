import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Pending } from '../calls/pending.ts';

/** How long the end of a pipe may be behind the first request that it did not take. */
const END_FOLLOWS_MS = 500;

/**
 * Requests that a pipe did not take any more. It is about to end, and its end tells more: who tries again then meets the
 * next connection instead of this one, and a failed start knows the exit code. So they are told with it.
 */
export class DeferredLosses {
  readonly #clock: Clock;
  #held: Map<number, () => void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the request with this id is one of them. */
  has(id: number): boolean {
    return this.#held?.has(id) === true;
  }

  hold(id: number, pending: Pending, error: GatewayError): void {
    const release = () => {
      this.#held?.delete(id);
      disarm();
      pending.lost(error);
    };
    const disarm = this.#clock.after(END_FOLLOWS_MS, release);
    this.#held ??= new Map();
    this.#held.set(id, release);
  }

  releaseAll(): void {
    for (const release of this.#held?.values() ?? []) release();
  }
}
