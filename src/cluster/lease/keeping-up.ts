import type { Bus } from '../../bus/bus.ts';
import type { Clock } from '../../model/clock.ts';

/** After so long without another sign of it a node counts as keeping up again. */
const CALM_MS = 5_000;

/**
 * Whether this node hears all that is said on the bus. What was said while it was cut off, or did not keep up (F29), is
 * asked anew; and who does not keep up gets no new calls from outside.
 */
export class KeepingUp {
  readonly #clock: Clock;
  readonly #off: () => void;
  #calmAt = Number.NEGATIVE_INFINITY;

  /** `missed`: something may have been said that was not heard; `absent`: others may have taken this node for gone. */
  constructor(bus: Bus, clock: Clock, missed: (absent: boolean) => void) {
    this.#clock = clock;
    this.#off = bus.onEvent((event) => {
      // A call that was cut because its other end does not keep up is no matter of this node.
      if (event.type === 'slow_consumer' && event.call !== true) this.#calmAt = clock.now() + CALM_MS;
      else if (event.type !== 'connected') return;
      missed(event.type === 'connected' && event.resync);
    });
  }

  get notReady(): string | null {
    return this.#clock.now() < this.#calmAt ? 'this node does not keep up with the bus of its cluster' : null;
  }

  close(): void {
    this.#off();
  }
}
