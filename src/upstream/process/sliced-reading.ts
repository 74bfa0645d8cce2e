import type { Readable } from 'node:stream';
import { FLOOD_REST_MS, FLOOD_SLICE_MS, LARGE_READ_BYTES } from '../../model/time-slicer.ts';

/**
 * Hands over what the stream has buffered, then lets `onData` receive the rest. A closed stream returns its buffer only when
 * read, without an event.
 */
function readOut(stream: Readable, onData: (chunk: Buffer) => void, take: (chunk: Buffer) => void): void {
  stream.off('data', onData);
  for (let chunk: Buffer | null = stream.read(); chunk !== null; chunk = stream.read()) take(chunk);
  stream.on('data', onData).resume();
}

/**
 * Checks before a slice may end: on a busy machine the clock advances without work here, and a flood taken byte by byte would
 * never end.
 */
const MIN_CHECKS = 4;

/** Slices of one line, about three megabytes, that are taken without a rest. */
const LONG_SLICES = 4;
/** Rest between further slices of a line: limits it to some hundred megabytes per second. */
const LONG_REST_MS = 4;

/** Takes a chunk from `at` on and returns the offset reached: below its length if `full`, when called, returned true. */
export type Take = (chunk: Buffer, at: number, full: () => boolean) => number;

/**
 * Reads a stream in slices. The system returns two megabytes of a flood in one turn of the event loop, which may be tens of
 * thousands of messages; the rest of a slice waits for the next one, and the stream is paused until then.
 */
export class SlicedReading {
  readonly #stream: Readable;
  readonly #take: Take;
  readonly #now: () => number;
  readonly #full = () => {
    this.#checks++;
    this.#hadLines = true;
    return this.#isFull;
  };
  readonly #onData = (chunk: Buffer): void => {
    // Node resumes the stream when the process exits; the order of chunks stays the same.
    this.#takeHeld();
    if (this.#since === null && chunk.length >= LARGE_READ_BYTES) this.#begin();
    this.#go(chunk, 0);
  };
  /** Start of this turn's slice; null without one. */
  #since: number | null = null;
  /** Checks in this slice. */
  #checks = 0;
  #hadLines = false;
  /** Slices since the last complete line. */
  #longSlices = 0;
  #ended = false;
  /** Cancels the wait for the next slice; null if none is waited for. */
  #endRest: (() => void) | null = null;
  #held: { readonly chunk: Buffer; readonly at: number } | null = null;

  constructor(stream: Readable, take: Take, now: () => number) {
    this.#stream = stream;
    this.#take = take;
    this.#now = now;
    stream.on('data', this.#onData);
  }

  /**
   * Takes everything that was read, at once, and the rest as it arrives. For a stream with little left: its process has exited,
   * or the stream is closed. May be called again.
   */
  flush(): void {
    this.#ended = true;
    this.#takeHeld();
    readOut(this.#stream, this.#onData, (chunk) => this.#go(chunk, 0));
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
    if (this.#ended || this.#since === null || this.#checks < MIN_CHECKS) return false;
    return this.#now() - this.#since >= FLOOD_SLICE_MS;
  }

  #begin(): void {
    this.#since = this.#now();
    this.#checks = 0;
    this.#hadLines = false;
    setImmediate(() => {
      this.#since = null;
      this.#longSlices = this.#hadLines ? 0 : this.#longSlices + 1;
      if (this.#held === null || this.#endRest !== null) return;
      if (this.#hadLines || this.#longSlices > LONG_SLICES) {
        const timer = setTimeout(() => this.#continueReading(), this.#hadLines ? FLOOD_REST_MS : LONG_REST_MS);
        this.#endRest = () => clearTimeout(timer);
      } else {
        // A long message is not a flood: other work runs in between, and the message waits no longer than that.
        const immediate = setImmediate(() => this.#continueReading());
        this.#endRest = () => clearImmediate(immediate);
      }
    });
  }

  #continueReading(): void {
    const held = this.#release();
    if (held === null) return;
    this.#begin();
    this.#go(held.chunk, held.at);
    if (this.#held === null) this.#stream.resume();
  }

  #go(chunk: Buffer, from: number): void {
    this.#checks++;
    const at = this.#isFull ? from : this.#take(chunk, from, this.#full);
    if (at >= chunk.length) return;
    this.#held = { chunk, at };
    this.#stream.pause();
  }
}

/**
 * Reads output that no request waits for, and rests after each piece: single lines, each of which would wake the gateway, then
 * arrive in few large pieces, and a flood meets a full pipe.
 */
export class RestedReading {
  readonly #stream: Readable;
  readonly #take: (chunk: Buffer) => void;
  readonly #onData = (chunk: Buffer): void => {
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
    stream.on('data', this.#onData);
  }

  /** Takes everything that was read, at once, and the little that is left as it arrives. */
  flush(): void {
    this.#ended = true;
    if (this.#rest !== null) clearTimeout(this.#rest);
    readOut(this.#stream, this.#onData, this.#take);
  }
}
