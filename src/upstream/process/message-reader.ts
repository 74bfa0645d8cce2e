import type { Clock } from '../../model/clock.ts';
import { printable } from '../../model/printable.ts';
import { LineSplitter } from './line-splitter.ts';
import { LogLimit, type ProcessLog } from './log-limit.ts';

/**
 * Tells a server that now and then writes a log line to its standard output from one that floods it: a leaking bucket
 * that holds what is tolerated in a minute and empties evenly over one.
 */
class JunkMeter {
  readonly #clock: Clock;
  readonly #bytesPerMinute: number;
  #level = 0;
  #at: number;

  constructor(clock: Clock, bytesPerMinute: number) {
    this.#clock = clock;
    this.#bytesPerMinute = bytesPerMinute;
    this.#at = clock.now();
  }

  /** Counts junk; true when there is too much of it. */
  add(bytes: number): boolean {
    const now = this.#clock.now();
    this.#level = Math.max(0, this.#level - ((now - this.#at) / 60_000) * this.#bytesPerMinute) + bytes;
    this.#at = now;
    return this.#level > this.#bytesPerMinute;
  }
}

interface MessageReaderSink {
  /** A line that may be a message: it begins and ends as a JSON object or array does. */
  message(bytes: Buffer): void;
  /** Which request of ours an overlong line answers, by its first and last KiB; 0 if none. */
  answered(head: Buffer, tail: Buffer): number;
  /** The answer to this request is longer than the limit. Called once per line, as soon as it is known. */
  tooLarge(request: number): void;
  /** More junk than the limit; the sink hears nothing after this. */
  flooded(): void;
}

interface MessageReaderDeps {
  readonly logger: ProcessLog;
  readonly clock: Clock;
  readonly redact: (text: string) => string;
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
export class MessageReader {
  readonly #sink: MessageReaderSink;
  readonly #deps: MessageReaderDeps;
  readonly #lines: LineSplitter;
  readonly #junk: JunkMeter;
  readonly #limit: LogLimit;
  #skippedLines = 0;
  /** Of the overlong line under way: the request it answers, 0 while unknown; its bytes not yet counted as junk. */
  #answers = 0;
  #pending = 0;
  #plausible = false;

  constructor(sink: MessageReaderSink, deps: MessageReaderDeps) {
    this.#sink = sink;
    this.#deps = deps;
    this.#junk = new JunkMeter(deps.clock, deps.maxJunkBytesPerMinute ?? MAX_JUNK_BYTES_PER_MINUTE);
    this.#limit = new LogLimit(deps.clock, 1, 1000);
    this.#lines = new LineSplitter(deps.maxMessageBytes, {
      line: (bytes) => this.#line(bytes),
      blank: () => this.#countJunk(LINE_WEIGHT),
      overflow: (head) => this.#overflow(head),
      skipped: (count) => this.#skipped(count),
      overflowEnd: (head, tail) => this.#overflowEnd(head, tail),
    });
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

  #line(bytes: Buffer): void {
    if (looksLikeJson(bytes)) {
      this.#sink.message(bytes);
      return;
    }
    if (firstByte(bytes) !== BLANK) {
      this.#report('not_a_message', bytes, 'Standard output is for messages only; logs belong to standard error.');
    }
    this.#countJunk(Math.max(bytes.length, LINE_WEIGHT));
  }

  #overflow(head: Buffer): void {
    this.#report('message_too_large', head, `A line is longer than the limit of ${this.#deps.maxMessageBytes} bytes.`);
    this.#plausible = firstByte(head) === 0x7b;
    this.#pending = 0;
    this.#answers = this.#sink.answered(head, NOTHING);
    if (this.#answers > 0) this.#sink.tooLarge(this.#answers);
  }

  #skipped(count: number): void {
    this.#pending += count;
    const patience = this.#plausible ? PATIENCE_BYTES : 0;
    if (this.#pending <= patience) return;
    this.#countJunk(this.#pending - patience);
    this.#pending = patience;
  }

  #overflowEnd(head: Buffer, tail: Buffer): void {
    if (this.#answers === 0) {
      const request = this.#sink.answered(head, tail);
      if (request > 0) this.#sink.tooLarge(request);
      else this.#countJunk(this.#pending);
    }
  }

  #countJunk(bytes: number): void {
    if (!this.#junk.add(bytes)) return;
    this.#lines.stop();
    this.#sink.flooded();
  }

  #report(event: string, bytes: Buffer, hint: string): void {
    this.#skippedLines++;
    if (!this.#limit.take()) return;
    const begins = printable(this.#deps.redact(bytes.toString('utf8', 0, 4 * SHOWN_BYTES))).slice(0, SHOWN_BYTES);
    this.#deps.logger.warn(event, { begins, hint, skippedLines: this.#skippedLines });
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
