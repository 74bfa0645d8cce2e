import { setImmediate } from 'node:timers';
import type { Clock } from '../../model/clock.ts';
import type { Attempt, StartPlace } from '../connection/attempt.ts';

/** Starts that begin in one turn of the event loop: what many starts do first may not hold up everything else. */
const PER_TURN = 4;
/** After so many places in a row for calls, the next one is for a start in the background. */
const CALLS_IN_A_ROW = 8;

interface StartQueueLimits {
  /** Starts at once. */
  readonly width: number;
  /** So many of these are kept for starts that a call waits for, so that those in the background that hang hold up no call. */
  readonly forCalls: number;
  /** A start that takes longer waits for something, and takes nothing from the others: the next one may begin. */
  readonly patienceMs: number;
}

/**
 * The places in which servers start, a few at a time: many that start at once do not starve each other, and those that
 * hang do not keep the others from starting. Starts that a call waits for come first; of equals, the one that came first.
 * An attempt that has a place must not wait for another attempt that may be waiting for one.
 */
export class StartQueue {
  readonly #limits: StartQueueLimits;
  readonly #clock: Clock;
  readonly #calls = new Set<Place>();
  readonly #background = new Set<Place>();
  #running = 0;
  /** Starts that may still begin in this turn. */
  #left = PER_TURN;
  #callsInARow = 0;

  constructor(limits: StartQueueLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Resolves when the attempt has a place, or was called off. One that has a place keeps it. */
  take(attempt: Attempt): Promise<void> {
    if (attempt.cancelled) return Promise.resolve();
    if (attempt.place === null) {
      const place = new Place(attempt, this.#clock, {
        hasten: () => {
          if (this.#background.delete(place)) this.#calls.add(place);
        },
        left: (had) => {
          if (had) this.#running--;
          this.#background.delete(place);
          this.#calls.delete(place);
          this.#next();
        },
      });
      attempt.place = place;
      (attempt.hurried ? this.#calls : this.#background).add(place);
      this.#next();
    }
    return attempt.place.given;
  }

  #next(): void {
    while (this.#running < this.#limits.width && this.#left > 0) {
      const place = this.#first();
      if (place === null) return;
      if (this.#left-- === PER_TURN) setImmediate(() => this.#turn());
      this.#running++;
      place.give(this.#limits.patienceMs);
    }
  }

  #first(): Place | null {
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

  #turn(): void {
    this.#left = PER_TURN;
    this.#next();
  }
}

interface PlaceDeps {
  readonly hasten: () => void;
  /** It is free, or no longer waited for. */
  readonly left: (had: boolean) => void;
}

class Place implements StartPlace {
  readonly #attempt: Attempt;
  readonly #clock: Clock;
  readonly #deps: PlaceDeps;
  readonly #given = Promise.withResolvers<void>();
  #state: 'waiting' | 'had' | 'over' = 'waiting';
  #disarm: () => void = () => {};

  constructor(attempt: Attempt, clock: Clock, deps: PlaceDeps) {
    this.#attempt = attempt;
    this.#clock = clock;
    this.#deps = deps;
  }

  get given(): Promise<void> {
    return this.#given.promise;
  }

  hasten(): void {
    this.#deps.hasten();
  }

  give(patienceMs: number): void {
    this.#state = 'had';
    this.#disarm = this.#clock.after(patienceMs, () => this.#end());
    this.#attempt.begin();
    this.#given.resolve();
  }

  leave(): void {
    this.#attempt.place = null;
    this.#end();
  }

  #end(): void {
    const before = this.#state;
    if (before === 'over') return;
    this.#state = 'over';
    this.#disarm();
    this.#given.resolve();
    this.#deps.left(before === 'had');
  }
}
