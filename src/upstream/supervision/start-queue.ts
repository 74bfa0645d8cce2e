import { setImmediate } from 'node:timers';
import type { Clock } from '../../model/clock.ts';
import type { Attempt, StartPlace } from '../connection/attempt.ts';

/** Starts that may begin in one turn of the event loop: the first steps of many starts must not block other work. */
const PER_TURN = 4;
/** Consecutive places for calls after which a background start gets one. */
const CALLS_IN_A_ROW = 8;

/** A starting process uses CPU time of this machine; a server behind a URL does not. */
export const STARTS = {
  own: { forCalls: 1, patienceMs: 20_000 },
  remote: { width: 64, forCalls: 0, patienceMs: 500 },
};

interface StartQueueLimits {
  /** Concurrent starts. */
  readonly width: number;
  /** Places reserved for starts that a call waits for, so that hanging background starts delay no call. */
  readonly forCalls: number;
  /** A start that takes longer only waits and delays no other: the next one may begin. */
  readonly patienceMs: number;
}

/** `give`: lets the start begin. */
interface QueuedPlace extends StartPlace {
  give(): void;
}

/**
 * Limits how many servers start at once; a start that hangs keeps no place forever. Starts that a call waits for come first. An
 * attempt with a place must not wait for another attempt that may be waiting for one.
 */
export class StartQueue {
  readonly #limits: StartQueueLimits;
  readonly #clock: Clock;
  readonly #calls = new Set<QueuedPlace>();
  readonly #background = new Set<QueuedPlace>();
  #running = 0;
  /** Starts that may still begin in this turn. */
  #left = PER_TURN;
  #callsInARow = 0;

  constructor(limits: StartQueueLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Resolves when the attempt has a place or is cancelled. An attempt that has a place keeps it. */
  take(attempt: Attempt): Promise<void> {
    if (attempt.cancelled) return Promise.resolve();
    if (attempt.place !== null) return attempt.place.given;
    const { promise, resolve } = Promise.withResolvers<void>();
    let disarm = (): void => {};
    let had = false;
    let over = false;
    const end = (): void => {
      if (over) return;
      over = true;
      disarm();
      resolve();
      if (had) this.#running--;
      this.#background.delete(place);
      this.#calls.delete(place);
      this.#next();
    };
    const place: QueuedPlace = {
      given: promise,
      give: () => {
        had = true;
        disarm = this.#clock.after(this.#limits.patienceMs, end);
        attempt.begin();
        resolve();
      },
      prioritize: () => {
        if (!this.#background.delete(place)) return;
        this.#calls.add(place);
        this.#next();
      },
      leave: () => {
        attempt.place = null;
        end();
      },
    };
    attempt.place = place;
    (attempt.calls.size > 0 ? this.#calls : this.#background).add(place);
    this.#next();
    return promise;
  }

  #next(): void {
    while (this.#running < this.#limits.width && this.#left > 0) {
      const place = this.#first();
      if (place === null) return;
      if (this.#left-- === PER_TURN) {
        setImmediate(() => {
          this.#left = PER_TURN;
          this.#next();
        });
      }
      this.#running++;
      place.give();
    }
  }

  #first(): QueuedPlace | null {
    const [call = null] = this.#calls;
    const [background = null] = this.#background;
    const { width, forCalls } = this.#limits;
    const passedOver = background !== null && this.#callsInARow >= CALLS_IN_A_ROW;
    if (call !== null && !passedOver) {
      this.#calls.delete(call);
      this.#callsInARow = background === null ? 0 : this.#callsInARow + 1;
      return call;
    }
    if (background === null || (!passedOver && this.#running >= width - forCalls)) return null;
    this.#background.delete(background);
    this.#callsInARow = 0;
    return background;
  }
}
