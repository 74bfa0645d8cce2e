import { printable } from '../../model/printable.ts';
import { LineSplitter } from './line-splitter.ts';
import { LogLimit, type OutputOptions } from './log-limit.ts';

/** The last `capacity` bytes of a stream, in one fixed buffer. */
export class ByteRing {
  readonly #bytes: Buffer;
  #next = 0;
  #wrapped = false;

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Whether the ring has been filled, so that older bytes may be gone. */
  get wrapped(): boolean {
    return this.#wrapped;
  }

  push(chunk: Buffer): void {
    const capacity = this.#bytes.length;
    if (chunk.length >= capacity) {
      chunk.copy(this.#bytes, 0, chunk.length - capacity);
      this.#wrapped = true;
      this.#next = 0;
      return;
    }
    const fits = Math.min(chunk.length, capacity - this.#next);
    chunk.copy(this.#bytes, this.#next, 0, fits);
    chunk.copy(this.#bytes, 0, fits);
    this.#next += chunk.length;
    if (this.#next >= capacity) {
      this.#next -= capacity;
      this.#wrapped = true;
    }
  }

  /** A copy, oldest byte first. */
  contents(): Buffer {
    if (!this.#wrapped) return Buffer.from(this.#bytes.subarray(0, this.#next));
    return Buffer.concat([this.#bytes.subarray(this.#next), this.#bytes.subarray(0, this.#next)]);
  }
}

const LF = 0x0a;
const KEEP_BYTES = 64 * 1024;
/** A line is redacted in this length and logged in the shorter one: a secret that the cut would halve is found. */
const LINE_BYTES = 8 * 1024;
const LOGGED_CHARACTERS = 1000;
const LINES_PER_SECOND = 10;
/** Of those that only `trunkline logs` shows. */
const KEPT_PER_SECOND = 200;

const TOO_FAST = `more than ${KEPT_PER_SECOND} lines a second; some are left out`;

/**
 * What a server wrote to its standard error: the last 64 KiB for people who ask why, a rate-limited log, and more lines
 * of it for readers of this server's log. Redacted before it leaves in any way; control characters are spelled out.
 */
export class StderrTail {
  readonly #options: OutputOptions;
  readonly #ring = new ByteRing(KEEP_BYTES);
  readonly #limit: LogLimit;
  readonly #keptLimit: LogLimit;
  #lines: LineSplitter;
  /** Output was passed over: the next line that is whole begins after a newline. */
  #cut = false;

  constructor(options: OutputOptions) {
    this.#options = options;
    this.#limit = new LogLimit(options.clock, LINES_PER_SECOND);
    this.#keptLimit = new LogLimit(options.clock, KEPT_PER_SECOND);
    this.#lines = this.#splitter();
  }

  push(chunk: Buffer): void {
    this.#ring.push(chunk);
    // A flood is not even cut into lines while none of them would be kept.
    if (this.#keptLimit.exhausted) {
      if (!this.#cut) this.#options.logger.keep('server_stderr_cut', { reason: TOO_FAST });
      this.#cut = true;
      this.#lines = this.#splitter();
      return;
    }
    const start = this.#cut ? chunk.indexOf(LF) + 1 : 0;
    if (this.#cut && start === 0) return;
    this.#cut = false;
    this.#lines.push(chunk.subarray(start));
  }

  /** The end of what was written, at most about `maxCharacters` long. */
  text(maxCharacters: number): string {
    const raw = this.#ring.contents().toString();
    // The oldest line may have lost its beginning, and with it the beginning of a secret.
    const whole = this.#ring.wrapped ? raw.slice(raw.indexOf('\n') + 1) : raw;
    return printable(this.#options.logger.redact(whole)).slice(-maxCharacters);
  }

  #splitter(): LineSplitter {
    const log = (bytes: Buffer): void => this.#log(bytes);
    return new LineSplitter(LINE_BYTES, { line: log, overflow: log });
  }

  #log(line: Buffer): void {
    if (!this.#keptLimit.take()) return;
    const { logger } = this.#options;
    const text = printable(logger.redact(line.toString())).slice(0, LOGGED_CHARACTERS);
    if (this.#limit.take()) logger.info('server_stderr', { line: text });
    else logger.keep('server_stderr', { line: text });
  }
}
