import { ByteGatherer } from '../model/byte-gatherer.ts';

/** One dispatched event. Fields that the event did not have are null; `data` is empty if it had none. */
export interface SseEvent {
  readonly id: string | null;
  readonly event: string | null;
  /** Lines joined with LF. Often a view of a pushed chunk. */
  readonly data: Buffer;
  readonly retryMs: number | null;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const EMPTY = Buffer.alloc(0);
const NEWLINE = Buffer.from('\n');

/**
 * Parses server-sent events from bytes in any chunking (WHATWG HTML §9.2.6). Linear; copies a line only if it arrived in
 * chunks, and buffers one event. Drops an event above the limit, and an incomplete one at the end. Also reports events
 * without data, whose id serves resumption.
 */
export class SseParser {
  readonly #maxEventBytes: number;
  readonly #onEvent: (event: SseEvent) => void;
  /** Earlier pieces of the current line. */
  readonly #pieces = new ByteGatherer();
  /** Length of the current line so far, of an oversize event. */
  #skippedBytes = 0;
  /** The event's data: a single line in `#data`, several lines in `#lines`. */
  #data: Buffer | null = null;
  readonly #lines = new ByteGatherer();
  /** Bytes of the event so far, complete lines only. */
  #eventBytes = 0;
  #id: string | null = null;
  #event: string | null = null;
  #retryMs: number | null = null;
  #hasFields = false;
  #oversize = false;
  #afterCr = false;
  #atStart = true;

  constructor(maxEventBytes: number, onEvent: (event: SseEvent) => void) {
    this.#maxEventBytes = maxEventBytes;
    this.#onEvent = onEvent;
  }

  /** Returns false if an event in this chunk exceeded the limit and is dropped. */
  push(chunk: Buffer): boolean {
    let fine = true;
    let at = 0;
    // Positions of the next CR and LF; each is searched once per stretch, so that the work stays linear.
    let lf = -2;
    let cr = -2;
    if (this.#afterCr && chunk.length > 0) {
      if (chunk[0] === LF) at = 1;
      this.#afterCr = false;
    }
    while (at < chunk.length) {
      if (lf !== -1 && lf < at) lf = chunk.indexOf(LF, at);
      if (cr !== -1 && cr < at) cr = chunk.indexOf(CR, at);
      const end = lf < 0 ? cr : cr < 0 ? lf : Math.min(lf, cr);
      if (end < 0) {
        if (!this.#grow(chunk.subarray(at))) fine = false;
        break;
      }
      if (!this.#endLine(chunk, at, end)) fine = false;
      at = end + 1;
      if (chunk[end] === CR) {
        if (at === chunk.length) this.#afterCr = true;
        else if (chunk[at] === LF) at++;
      }
    }
    return fine;
  }

  /** Buffers the beginning of an incomplete line. */
  #grow(piece: Buffer): boolean {
    if (this.#oversize) {
      this.#skippedBytes += piece.length;
      return true;
    }
    this.#pieces.add(piece);
    return this.#withinLimit(this.#pieces.length);
  }

  #withinLimit(lineBytes: number): boolean {
    if (this.#eventBytes + lineBytes <= this.#maxEventBytes) return true;
    this.#oversize = true;
    this.#skippedBytes = this.#pieces.length;
    this.#pieces.clear();
    this.#clearData();
    return false;
  }

  #endLine(chunk: Buffer, start: number, end: number): boolean {
    const length = (this.#oversize ? this.#skippedBytes : this.#pieces.length) + end - start;
    if (length === 0) {
      this.#dispatch();
      return true;
    }
    if (this.#oversize) {
      this.#skippedBytes = 0;
      return true;
    }
    let line = chunk;
    if (this.#pieces.length > 0) {
      this.#pieces.add(chunk.subarray(start, end));
      line = this.#pieces.take();
      start = 0;
      end = length;
    }
    if (!this.#withinLimit(length)) return false;
    this.#eventBytes += length;
    if (this.#atStart) {
      this.#atStart = false;
      if (line[start] === 0xef && line[start + 1] === 0xbb && line[start + 2] === 0xbf) start += 3;
      // A line that is only a byte order mark is blank.
      if (start === end) {
        this.#dispatch();
        return true;
      }
    }
    // Not a comment.
    if (line[start] !== COLON) this.#field(line, start, end);
    return true;
  }

  #field(line: Buffer, start: number, end: number): void {
    let colon = start;
    // The longest field names are `event` and `retry`.
    while (colon < end && colon <= start + 5 && line[colon] !== COLON) colon++;
    if (colon < end && line[colon] !== COLON) return;
    let value = Math.min(colon + 1, end);
    if (line[value] === 0x20 && value < end) value++;
    const name = line.toString('latin1', start, colon);
    if (name === 'data') this.#addData(line.subarray(value, end));
    else {
      const text = line.toString('utf8', value, end);
      if (name === 'event') this.#event = text;
      else if (name === 'id' && !text.includes('\0')) this.#id = text;
      else if (name === 'retry' && /^[0-9]{1,15}$/.test(text)) this.#retryMs = Number(text);
      else return;
    }
    this.#hasFields = true;
  }

  #addData(line: Buffer): void {
    if (this.#lines.length === 0) {
      if (this.#data === null) {
        this.#data = line;
        return;
      }
      this.#lines.add(this.#data);
      this.#data = null;
    }
    this.#lines.add(NEWLINE);
    this.#lines.add(line);
  }

  #clearData(): void {
    this.#data = null;
    this.#lines.clear();
  }

  #dispatch(): void {
    this.#atStart = false;
    const data = this.#lines.length > 0 ? this.#lines.take() : (this.#data ?? EMPTY);
    const event: SseEvent = { id: this.#id, event: this.#event, data, retryMs: this.#retryMs };
    const given = this.#hasFields && !this.#oversize;
    this.#clearData();
    this.#eventBytes = 0;
    this.#id = null;
    this.#event = null;
    this.#retryMs = null;
    this.#hasFields = false;
    this.#oversize = false;
    if (given) this.#onEvent(event);
  }
}
