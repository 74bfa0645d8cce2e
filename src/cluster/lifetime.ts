import type { Bus, Registration } from '../bus/bus.ts';
import type { Clock } from '../model/clock.ts';

/** How long waits still work after `close`: longer than a call looks for a node. */
const LAST_WAITS_MS = 10_000;

/** The bus and the clock of a cluster. `close` ends their registrations and timers; calls that wait can still finish. */
export class Lifetime {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly #ends = new Set<() => void>();
  #overSince = Number.POSITIVE_INFINITY;

  constructor(bus: Bus, clock: Clock) {
    const registered = (registration: Registration): Registration => {
      this.#ends.add(() => registration.close());
      return registration;
    };
    this.bus = {
      peer: bus.peer,
      get status() {
        return bus.status;
      },
      get connected() {
        return bus.connected;
      },
      publish: (subject, payload) => bus.publish(subject, payload),
      subscribe: (subject, subscriber) => registered(bus.subscribe(subject, subscriber)),
      serve: (name, handler, options) => registered(bus.serve(name, handler, options)),
      call: (name, payload, options) => bus.call(name, payload, options),
      peerLost: (peer, reason, left) => bus.peerLost(peer, reason, left),
      onEvent: (listener) => {
        const off = bus.onEvent(listener);
        this.#ends.add(off);
        return off;
      },
      close: () => bus.close(),
    };
    const times = { now: () => clock.now(), turnNow: () => clock.turnNow(), wall: () => clock.wall() };
    this.clock = {
      ...times,
      after: (delayMs, task) => this.#after(clock, delayMs, task),
      waits: {
        ...times,
        after: (delayMs, task) =>
          clock.now() < this.#overSince + LAST_WAITS_MS ? clock.after(delayMs, task) : () => {},
      },
    };
  }

  close(): void {
    this.#overSince = this.clock.now();
    for (const end of [...this.#ends]) end();
    this.#ends.clear();
  }

  #after(clock: Clock, delayMs: number, task: () => void): () => void {
    if (clock.now() >= this.#overSince) return () => {};
    const disarm = (): void => {
      this.#ends.delete(disarm);
      stop();
    };
    const stop = clock.after(delayMs, () => {
      this.#ends.delete(disarm);
      task();
    });
    this.#ends.add(disarm);
    return disarm;
  }
}
