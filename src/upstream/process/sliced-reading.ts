import type { Readable } from 'node:stream';
import { FLOOD_REST_MS, FLOOD_SLICE_MS, LARGE_READ_BYTES } from '../../model/pace.ts';

/**
 * Hands over what the stream has buffered, and lets `heard` receive the rest as it comes. A stream that is
 * closed gives what it has buffered only when asked, without an event.
 */
function readOut(stream: Readable, heard: (chunk: Buffer) => void, take: (chunk: Buffer) => void): void {
  stream.off('data', heard);
  for (let chunk: Buffer | null = stream.read(); chunk !== null; chunk = stream.read()) take(chunk);
  stream.on('data', heard).resume();
}

/**
 * Times that is asked before it may be enough: on a busy machine the clock goes on while nothing is done here, and a flood
 * that is taken byte by byte never ends.
 */
const LEAST_LOOKS = 4;

/** As many slices of one line, some three megabytes, are taken without a rest. */
const LONG_SLICES = 4;
/** So that they come at some hundred megabytes a second. */
const LONG_REST_MS = 4;

/** Takes a chunk from `at` on, and returns up to where: not to its end where `full` said, when asked, that it is enough. */
export type Take = (chunk: Buffer, at: number, full: () => boolean) => number;

/**
 * Reads a stream in slices. The system hands over two megabytes of a flood in one turn of the event loop, which may be
 * tens of thousands of messages; what was not taken within the slice waits for the next one, and the stream with it.
 */
export class SlicedReading {
  readonly #stream: Readable;
  readonly #take: Take;
  readonly #now: () => number;
  readonly #full = () => {
    this.#looks++;
    this.#hadLines = true;
    return this.#isFull;
  };
  readonly #heard = (chunk: Buffer): void => {
    // Node makes the stream flow at the exit of a process; the order stays the same.
    this.#takeHeld();
    if (this.#since === null && chunk.length >= LARGE_READ_BYTES) this.#begin();
    this.#go(chunk, 0);
  };
  /** When the slice of this turn began; null while there is none. */
  #since: number | null = null;
  /** In this slice. */
  #looks = 0;
  #hadLines = false;
  /** Slices since there was a line. */
  #longSlices = 0;
  #ended = false;
  /** Until the next slice; null while nothing is held. */
  #endRest: (() => void) | null = null;
  #held: { readonly chunk: Buffer; readonly at: number } | null = null;

  constructor(stream: Readable, take: Take, now: () => number) {
    this.#stream = stream;
    this.#take = take;
    this.#now = now;
    stream.on('data', this.#heard);
  }

  /**
   * Takes what was read, at once, and what still comes as it comes. For when little is left: the process that
   * wrote it has exited, or the stream is closed. It may be called again.
   */
  flush(): void {
    this.#ended = true;
    this.#takeHeld();
    readOut(this.#stream, this.#heard, (chunk) => this.#go(chunk, 0));
  }

  #takeHeld(): void {
    const held = this.#release();
    if (held !== null) this.#take(held.chunk, held.at, () => false);
  }

  #release(): { readonly chunk: Buffer; readonly at: number } | null {
    const held = this.#held;
    this.#held = null;
    this.#endRest?.();
    this.#endRest = null;
    return held;
  }

  get #isFull(): boolean {
    if (this.#ended || this.#since === null || this.#looks < LEAST_LOOKS) return false;
    return this.#now() - this.#since >= FLOOD_SLICE_MS;
  }

  #begin(): void {
    this.#since = this.#now();
    this.#looks = 0;
    this.#hadLines = false;
    setImmediate(() => {
      this.#since = null;
      this.#longSlices = this.#hadLines ? 0 : this.#longSlices + 1;
      if (this.#held === null || this.#endRest !== null) return;
      if (this.#hadLines || this.#longSlices > LONG_SLICES) {
        const timer = setTimeout(() => this.#goOn(), this.#hadLines ? FLOOD_REST_MS : LONG_REST_MS);
        this.#endRest = () => clearTimeout(timer);
      } else {
        // A message that is only long is no flood: others have their turn in between, and it waits no longer than that.
        const immediate = setImmediate(() => this.#goOn());
        this.#endRest = () => clearImmediate(immediate);
      }
    });
  }

  #goOn(): void {
    const held = this.#release();
    if (held === null) return;
    this.#begin();
    this.#go(held.chunk, held.at);
    if (this.#held === null) this.#stream.resume();
  }

  #go(chunk: Buffer, from: number): void {
    this.#looks++;
    const at = this.#isFull ? from : this.#take(chunk, from, this.#full);
    if (at >= chunk.length) return;
    this.#held = { chunk, at };
    this.#stream.pause();
  }
}

/**
 * Reads output that no request waits for, and rests after each piece: what is written line by line, each of which would wake us, comes
 * in few large pieces then, and a flood finds its pipe full.
 */
export class RestedReading {
  readonly #stream: Readable;
  readonly #take: (chunk: Buffer) => void;
  readonly #heard = (chunk: Buffer): void => {
    this.#take(chunk);
    if (this.#ended) return;
    this.#stream.pause();
    this.#rest ??= setTimeout(() => {
      this.#rest = null;
      this.#stream.resume();
    }, FLOOD_REST_MS);
  };
  #rest: NodeJS.Timeout | null = null;
  #ended = false;

  constructor(stream: Readable, take: (chunk: Buffer) => void) {
    this.#stream = stream;
    this.#take = take;
    stream.on('data', this.#heard);
  }

  /** What was read is taken at once, and what is left, which is little, as it comes. */
  flush(): void {
    this.#ended = true;
    if (this.#rest !== null) clearTimeout(this.#rest);
    readOut(this.#stream, this.#heard, this.#take);
  }
}
