import { setImmediate, setTimeout } from 'node:timers';
import { FLOOD_REST_MS, FLOOD_SLICE_MS, LARGE_READ_BYTES } from '../../model/time-slicer.ts';

/**
 * One connection's share of a turn of the event loop: the system may deliver two megabytes in one turn, which can be tens
 * of thousands of events. The rest waits for a later turn.
 */
export class TurnSlice {
  readonly #now: () => number;
  readonly #rest: () => void;
  readonly #goOn: () => void;
  /** When the slice of this turn began; null without one. */
  #since: number | null = null;
  #resting = false;
  /** Bytes of the pieces in this turn. */
  #sum = 0;

  /** `rest` pauses the reading, `goOn` resumes it; between them no other code may resume it. */
  constructor(now: () => number, rest: () => void, goOn: () => void) {
    this.#now = now;
    this.#rest = rest;
    this.#goOn = goOn;
  }

  get resting(): boolean {
    return this.#resting;
  }

  /** Call it before processing what was read. */
  begin(length: number): void {
    if (length < LARGE_READ_BYTES || this.#since !== null) return;
    this.#start();
  }

  /** As `begin`, for input in small pieces, however much was read: for example an HTTP chunk per event. */
  beginPiece(length: number): void {
    if (this.#since !== null) return;
    if (this.#sum === 0) setImmediate(() => (this.#sum = 0));
    this.#sum += length;
    if (this.#sum >= LARGE_READ_BYTES) this.#start();
  }

  #start(): void {
    this.#since = this.#now();
    setImmediate(() => {
      this.#since = null;
      if (this.#resting) setTimeout(() => this.#restOver(), FLOOD_REST_MS);
    });
  }

  #restOver(): void {
    this.#resting = false;
    this.#goOn();
  }

  /** Call it after processing. */
  end(): void {
    if (this.#since === null || this.#resting || this.#now() - this.#since < FLOOD_SLICE_MS) return;
    this.#resting = true;
    this.#rest();
  }
}
