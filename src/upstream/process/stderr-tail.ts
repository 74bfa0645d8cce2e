import type { Clock } from '../../model/clock.ts';
import { ByteRing } from './byte-ring.ts';
import { LineSplitter } from './line-splitter.ts';
import { LogLimit, type ProcessLog } from './log-limit.ts';
import { printable } from './printable.ts';

const KEEP_BYTES = 64 * 1024;
/** A line is redacted in this length and logged in the shorter one: a secret that the cut would halve is found. */
const LINE_BYTES = 8 * 1024;
const LOGGED_CHARACTERS = 1000;
const LINES_PER_SECOND = 10;

export interface StderrTailDeps {
  readonly logger: ProcessLog;
  readonly clock: Clock;
  /** Masks every secret known to this process. */
  readonly redact: (text: string) => string;
}

/**
 * What a server wrote to its standard error: the last 64 KiB for people who ask why, and a rate-limited log. Redacted
 * before it leaves in either way; control characters are spelled out.
 */
export class StderrTail {
  readonly #deps: StderrTailDeps;
  readonly #ring = new ByteRing(KEEP_BYTES);
  readonly #limit: LogLimit;
  readonly #lines: LineSplitter;

  constructor(deps: StderrTailDeps) {
    this.#deps = deps;
    this.#limit = new LogLimit(deps.clock, LINES_PER_SECOND, 1000);
    this.#lines = new LineSplitter(LINE_BYTES, {
      line: (bytes) => this.#log(bytes),
      overflow: (head) => this.#log(head),
      skipped: () => {},
      overflowEnd: () => {},
    });
  }

  push(chunk: Buffer): void {
    this.#ring.push(chunk);
    this.#lines.push(chunk);
  }

  /** The end of what was written, at most about `maxCharacters` long. */
  text(maxCharacters: number): string {
    const raw = this.#ring.contents().toString();
    // The oldest line may have lost its beginning, and with it the beginning of a secret.
    const whole = this.#ring.wrapped ? raw.slice(raw.indexOf('\n') + 1) : raw;
    return printable(this.#deps.redact(whole)).slice(-maxCharacters);
  }

  #log(line: Buffer): void {
    const heldBack = this.#limit.take();
    if (heldBack === null) return;
    const text = printable(this.#deps.redact(line.toString())).slice(0, LOGGED_CHARACTERS);
    this.#deps.logger.info('upstream.stderr', heldBack === 0 ? { line: text } : { line: text, heldBack });
  }
}
