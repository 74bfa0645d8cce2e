import { printable } from '../../model/printable.ts';
import { type LineSink, LineSplitter } from '../process/line-splitter.ts';
import { LogLimit, type OutputOptions } from '../process/log-limit.ts';
import { answeredRequest } from './in-flight.ts';

export interface MessageReaderSink {
  /** A line that may be a message: it begins and ends as a JSON object or array does. */
  message(bytes: Buffer): void;
  /** The answer to this request is longer than the limit. Called once per line, as soon as it is known. */
  tooLarge(request: number): void;
  /** More junk than the limit; the sink hears nothing after this. */
  flooded(): void;
}

/** What a reader of a process's output needs beside the output. */
interface MessageReaderOptions extends OutputOptions {
  readonly maxMessageBytes: number;
  readonly maxJunkBytesPerMinute?: number;
}

const MAX_JUNK_BYTES_PER_MINUTE = 64 * 1024 * 1024;
/** An overlong line that looks like an answer is given this much to end before it counts as junk. */
const PATIENCE_BYTES = 64 * 1024 * 1024;
/** What the shortest line of junk counts: lines cost time, not only bytes. */
const LINE_WEIGHT = 64;
const SHOWN_BYTES = 200;
const NOTHING = Buffer.alloc(0);
const BLANK = -1;

/**
 * Finds the messages in what a server writes to its standard output, and puts up with the rest: log lines, garbage,
 * overlong lines. Those are counted and shown in the log once a second; a flood of them is reported to the sink.
 */
export class MessageReader implements LineSink {
  readonly #sink: MessageReaderSink;
  readonly #options: MessageReaderOptions;
  readonly #lines: LineSplitter;
  readonly #limit: LogLimit;
  #skippedLines = 0;
  /** Bytes of junk, as a leaking bucket: what is tolerated in a minute fills it, and leaves it evenly within one. */
  #junk = 0;
  #junkAt: number;
  /** Of the overlong line under way: the request it answers, 0 while unknown; its bytes not yet counted as junk. */
  #answers = 0;
  #pending = 0;
  #plausible = false;

  constructor(sink: MessageReaderSink, options: MessageReaderOptions) {
    this.#sink = sink;
    this.#options = options;
    this.#junkAt = options.clock.now();
    this.#limit = new LogLimit(options.clock, 1);
    this.#lines = new LineSplitter(options.maxMessageBytes, this);
  }

  /** Lines that were no messages, overlong ones included. */
  get skippedLines(): number {
    return this.#skippedLines;
  }

  /** As `LineSplitter.push`. */
  push(chunk: Buffer, from?: number, full?: () => boolean): number {
    return this.#lines.push(chunk, from, full);
  }

  /** The sink hears nothing from now on. */
  stop(): void {
    this.#lines.stop();
  }

  line(bytes: Buffer): void {
    if (looksLikeJson(bytes)) {
      this.#sink.message(bytes);
      return;
    }
    if (firstByte(bytes) !== BLANK) {
      this.#report('not_a_message', bytes, 'Standard output is for messages only; logs belong to standard error.');
    }
    this.#countJunk(Math.max(bytes.length, LINE_WEIGHT));
  }

  blank(): void {
    this.#countJunk(LINE_WEIGHT);
  }

  overflow(head: Buffer): void {
    this.#report(
      'message_too_large',
      head,
      `A line is longer than the limit of ${this.#options.maxMessageBytes} bytes.`,
    );
    this.#plausible = firstByte(head) === 0x7b;
    this.#pending = 0;
    this.#answers = answeredRequest(head, NOTHING);
    if (this.#answers > 0) this.#sink.tooLarge(this.#answers);
  }

  skipped(count: number): void {
    this.#pending += count;
    const patience = this.#plausible ? PATIENCE_BYTES : 0;
    if (this.#pending <= patience) return;
    this.#countJunk(this.#pending - patience);
    this.#pending = patience;
  }

  overflowEnd(head: Buffer, tail: Buffer): void {
    if (this.#answers > 0) return;
    const request = answeredRequest(head, tail);
    if (request > 0) this.#sink.tooLarge(request);
    else this.#countJunk(this.#pending);
  }

  #countJunk(bytes: number): void {
    const { clock, maxJunkBytesPerMinute = MAX_JUNK_BYTES_PER_MINUTE } = this.#options;
    const now = clock.now();
    this.#junk = Math.max(0, this.#junk - ((now - this.#junkAt) / 60_000) * maxJunkBytesPerMinute) + bytes;
    this.#junkAt = now;
    if (this.#junk <= maxJunkBytesPerMinute) return;
    this.#lines.stop();
    this.#sink.flooded();
  }

  #report(event: string, bytes: Buffer, hint: string): void {
    this.#skippedLines++;
    if (!this.#limit.take()) return;
    const begins = printable(this.#options.redact(bytes.toString('utf8', 0, 4 * SHOWN_BYTES))).slice(0, SHOWN_BYTES);
    this.#options.logger.warn(event, { begins, hint, skippedLines: this.#skippedLines });
  }
}

/** The first byte that is no white space; BLANK where there is none. */
function firstByte(bytes: Buffer): number {
  let at = 0;
  while (isSpace(bytes[at])) at++;
  return bytes[at] ?? BLANK;
}

function looksLikeJson(bytes: Buffer): boolean {
  let end = bytes.length - 1;
  while (isSpace(bytes[end])) end--;
  const first = firstByte(bytes);
  return (first === 0x7b && bytes[end] === 0x7d) || (first === 0x5b && bytes[end] === 0x5d);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}
