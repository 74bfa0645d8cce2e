import { setImmediate, setTimeout } from 'node:timers';
import { FLOOD_REST_MS, FLOOD_SLICE_MS, LARGE_READ_BYTES } from '../../model/pace.ts';

/**
 * One connection's share of a turn of the event loop: the system hands over two megabytes in one turn, which may be
 * tens of thousands of events. The rest waits for the next turn.
 */
export class TurnSlice {
  readonly #now: () => number;
  readonly #rest: () => void;
  readonly #goOn: () => void;
  /** When the slice of this turn began; null while there is none. */
  #since: number | null = null;
  #resting = false;
  /** Of the pieces in this turn. */
  #sum = 0;

  /** `rest` ends the reading, `goOn` takes it up again; between them no other code may. */
  constructor(now: () => number, rest: () => void, goOn: () => void) {
    this.#now = now;
    this.#rest = rest;
    this.#goOn = goOn;
  }

  get resting(): boolean {
    return this.#resting;
  }

  /** Before what was read is looked at. */
  begin(length: number): void {
    if (length < LARGE_READ_BYTES || this.#since !== null) return;
    this.#start();
  }

  /** Likewise, where it comes in pieces of its own, however much was read: an HTTP chunk for each event, say. */
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

  /** After it. */
  end(): void {
    if (this.#since === null || this.#resting || this.#now() - this.#since < FLOOD_SLICE_MS) return;
    this.#resting = true;
    this.#rest();
  }
}
