import { ByteGatherer, SMALL_PIECE } from '../../model/byte-gatherer.ts';
import { releaseBytes } from '../../model/pooled-buffers.ts';
import { LARGE_READ_BYTES } from '../../model/time-slicer.ts';

/** Receives the output of a splitter. */
export interface LineSink {
  /** One line without its terminator (LF or CRLF); never empty. The sink owns the buffer. */
  line(bytes: Buffer): void;
  /** An empty line. */
  blank?(): void;
  /** The current line exceeds the limit; `head` is its first KiB. The rest is skipped. */
  overflow(head: Buffer): void;
  /** This many bytes of an overlong line were dropped. */
  skipped?(count: number): void;
  /** The overlong line has ended; `tail` is its last KiB. */
  overflowEnd?(head: Buffer, tail: Buffer): void;
}

/** Lines after which `full` is asked. */
const LINES_PER_LOOK = 16;

const EDGE_BYTES = 1024;
const LF = 0x0a;
const CR = 0x0d;

/**
 * Splits a byte stream into lines in linear time: every byte is read once, whatever the chunks, and an unfinished line is a
 * list of pieces that is joined once. A line above `maxLineBytes` is dropped up to its newline, with its first and last KiB
 * reported to the sink. Bytes without a newline at the end of the stream are dropped.
 */
export class LineSplitter {
  readonly #sink: LineSink;
  readonly #maxLineBytes: number;
  /** The current unfinished line. */
  readonly #held = new ByteGatherer(true);
  /** The first KiB of an overlong line that is being skipped; else null. */
  #head: Buffer | null = null;
  #tail: Buffer = Buffer.alloc(0);
  /** The current chunk if the sink keeps a line that is a part of it. */
  #shared: Buffer | null = null;
  #stopped = false;

  constructor(maxLineBytes: number, sink: LineSink) {
    this.#maxLineBytes = maxLineBytes;
    this.#sink = sink;
  }

  /**
   * The splitter owns the chunk from now on: memory of which no line needs is freed at once. If `full` returns true, returns
   * the offset, below the chunk's length, at which to continue with the same chunk.
   */
  push(chunk: Buffer, from = 0, full: () => boolean = never): number {
    let at = from;
    for (let lines = 1; !this.#stopped; lines++) {
      const newline = chunk.indexOf(LF, at);
      if (newline < 0) break;
      this.#finish(chunk, at, newline);
      at = newline + 1;
      if (lines % LINES_PER_LOOK === 0 && at < chunk.length && full()) return at;
    }
    if (!this.#stopped && at < chunk.length) this.#continue(chunk.subarray(at));
    // All lines of the chunk were copied: freed here, because garbage chunks of a flood would trigger collections.
    if (chunk.length >= LARGE_READ_BYTES && this.#shared !== chunk && chunk.length - at < SMALL_PIECE)
      releaseBytes(chunk);
    this.#shared = null;
    return chunk.length;
  }

  /** The sink gets nothing from now on, not even from the current chunk. */
  stop(): void {
    this.#stopped = true;
    this.#held.clear();
    this.#head = null;
  }

  #finish(chunk: Buffer, start: number, newline: number): void {
    const end = newline > start && chunk[newline - 1] === CR ? newline - 1 : newline;
    if (this.#head === null && this.#held.length === 0) {
      if (end === start) {
        this.#sink.blank?.();
        return;
      }
      if (end - start <= this.#maxLineBytes) {
        // A short line must not keep a large chunk alive.
        const line = chunk.subarray(start, end);
        const copies = line.length * 4 < chunk.length;
        if (!copies) this.#shared = chunk;
        this.#sink.line(copies ? Buffer.from(line) : line);
        return;
      }
    }
    if (end > start || this.#head !== null) this.#continue(chunk.subarray(start, end));
    if (this.#stopped) return;
    if (this.#head !== null) {
      const head = this.#head;
      this.#head = null;
      this.#sink.overflowEnd?.(head, this.#tail);
      return;
    }
    let line = this.#held.take();
    // The carriage return was in the previous chunk.
    if (newline === start && line.at(-1) === CR) line = line.subarray(0, -1);
    if (line.length > 0) this.#sink.line(line);
    else this.#sink.blank?.();
  }

  #continue(part: Buffer): void {
    if (this.#head !== null) {
      this.#tail = lastBytes(this.#tail, part);
      const { length } = part;
      releaseBytes(part);
      this.#sink.skipped?.(length);
      return;
    }
    // A carriage return at the end may be part of the terminator.
    const most = part.at(-1) === CR ? this.#maxLineBytes + 1 : this.#maxLineBytes;
    if (this.#held.length + part.length <= most) {
      this.#held.add(part);
      return;
    }
    const bytes = this.#held.length + part.length;
    const { head, tail } = this.#held.edges(EDGE_BYTES);
    this.#held.clear();
    this.#head = Buffer.concat([head, part.subarray(0, EDGE_BYTES - head.length)]);
    this.#tail = lastBytes(tail, part);
    releaseBytes(part);
    this.#sink.overflow(this.#head);
    if (!this.#stopped) this.#sink.skipped?.(bytes);
  }
}

function never(): boolean {
  return false;
}

/** A copy of the last KiB of `before` followed by `part`. */
function lastBytes(before: Buffer, part: Buffer): Buffer {
  if (part.length >= EDGE_BYTES) return Buffer.from(part.subarray(part.length - EDGE_BYTES));
  return Buffer.concat([before.subarray(-(EDGE_BYTES - part.length)), part]);
}
