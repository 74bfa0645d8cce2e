import type { Clock } from '../../model/clock.ts';

/**
 * Responses that the gateway needs no longer and the server has not ended. Most end in the same instant, so there is no timer per
 * response: one sweep, which runs only while there are any, aborts those that were open for a whole round.
 */
export class LingeringResponses<R extends { abort(): void }> {
  readonly #clock: Clock;
  readonly #roundMs: number;
  /** Whether the response was open at the last sweep; null while there are none. */
  #open: Map<R, boolean> | null = null;
  #stopSweeping: (() => void) | null = null;

  constructor(clock: Clock, roundMs: number) {
    this.#clock = clock;
    this.#roundMs = roundMs;
  }

  add(response: R): void {
    this.#open ??= new Map();
    this.#open.set(response, false);
    if (this.#stopSweeping === null) this.#sweepLater();
  }

  delete(response: R): void {
    this.#open?.delete(response);
  }

  /** Aborts all. */
  end(): void {
    this.#stopSweeping?.();
    for (const response of this.#open?.keys() ?? []) response.abort();
    this.#open = null;
  }

  #sweepLater(): void {
    this.#stopSweeping = this.#clock.after(this.#roundMs, () => {
      this.#stopSweeping = null;
      for (const [response, swept] of this.#open ?? []) {
        if (swept) {
          this.#open!.delete(response);
          response.abort();
        } else this.#open!.set(response, true);
      }
      if (this.#open?.size) this.#sweepLater();
    });
  }
}
