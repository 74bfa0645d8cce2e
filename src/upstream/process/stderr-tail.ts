import { printable } from '../../model/printable.ts';
import { LineSplitter } from './line-splitter.ts';
import { LogLimit, type OutputOptions } from './log-limit.ts';

/** Ring buffer of the last `capacity` bytes of a stream. */
export class ByteRing {
  readonly #bytes: Buffer;
  #next = 0;
  #wrapped = false;

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Whether the ring was filled, so that older bytes may be lost. */
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
/** A line is redacted up to this length and logged up to the shorter one, so that a secret at the cut is still redacted. */
const LINE_BYTES = 8 * 1024;
const LOGGED_CHARACTERS = 1000;
const LINES_PER_SECOND = 10;
/** Limit for lines that only `trunkline logs` shows. */
const KEPT_PER_SECOND = 200;

const TOO_FAST = `more than ${KEPT_PER_SECOND} lines a second; some are left out`;

/**
 * A server's standard error: the last 64 KiB for diagnosis, a rate-limited log, and more lines for readers of this server's
 * log. Redacted before any use; control characters are escaped.
 */
export class StderrTail {
  readonly #options: OutputOptions;
  readonly #ring = new ByteRing(KEEP_BYTES);
  readonly #limit: LogLimit;
  readonly #keptLimit: LogLimit;
  #lines: LineSplitter;
  /** Output was dropped: the next complete line starts after a newline. */
  #cut = false;

  constructor(options: OutputOptions) {
    this.#options = options;
    this.#limit = new LogLimit(options.clock, LINES_PER_SECOND);
    this.#keptLimit = new LogLimit(options.clock, KEPT_PER_SECOND);
    this.#lines = this.#splitter();
  }

  push(chunk: Buffer): void {
    this.#ring.push(chunk);
    // A flood is not split into lines while none of them would be kept.
    if (this.#keptLimit.exhausted) {
      if (!this.#cut) this.#options.logger.publish('server_stderr_cut', { reason: TOO_FAST });
      this.#cut = true;
      this.#lines = this.#splitter();
      return;
    }
    const start = this.#cut ? chunk.indexOf(LF) + 1 : 0;
    if (this.#cut && start === 0) return;
    this.#cut = false;
    this.#lines.push(chunk.subarray(start));
  }

  /** The end of the output, at most about `maxCharacters` long. */
  text(maxCharacters: number): string {
    const raw = this.#ring.contents().toString();
    // The oldest line may be truncated, and with it a secret.
    const text = this.#ring.wrapped ? raw.slice(raw.indexOf('\n') + 1) : raw;
    return printable(this.#options.logger.redact(text)).slice(-maxCharacters);
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
    else logger.publish('server_stderr', { line: text });
  }
}
