import type { Bus } from '../../bus/bus.ts';
import type { Clock } from '../../model/clock.ts';
import { HEARTBEAT_MS, LOST_MS } from '../nodes/nodes.ts';

/** Who stands still for longer than this may have been silent for too long since his last heartbeat. */
const STILL_MS = LOST_MS - HEARTBEAT_MS;

export interface AbsencesDeps {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly back: () => void;
}

/** Tells when the others may have taken this node for gone, and it is back: the bus was away, or the process stood still. */
export class Absences {
  readonly #clock: Clock;
  readonly #back: () => void;
  readonly #off: () => void;
  #stop: () => void = () => {};

  constructor({ bus, clock, back }: AbsencesDeps) {
    this.#clock = clock;
    this.#back = back;
    this.#off = bus.onEvent((event) => {
      if (event.type === 'connected' && event.resync) back();
    });
    this.#look(clock.now());
  }

  close(): void {
    this.#off();
    this.#stop();
  }

  #look(lookedAt: number): void {
    if (this.#clock.now() - lookedAt > STILL_MS) this.#back();
    const now = this.#clock.now();
    this.#stop = this.#clock.after(HEARTBEAT_MS, () => this.#look(now));
  }
}
