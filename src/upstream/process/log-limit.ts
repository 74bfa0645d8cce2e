import type { Clock } from '../../model/clock.ts';

/** The part of the logger that is needed here. */
export interface ProcessLog {
  info(event: string, fields?: Record<string, unknown>): void;
  warn(event: string, fields?: Record<string, unknown>): void;
  /** Only for readers of this server's log. */
  keep(event: string, fields?: Record<string, unknown>): void;
}

/** What readers of a process's output need beside the output. */
export interface OutputOptions {
  readonly logger: ProcessLog;
  readonly clock: Clock;
  /** Masks every secret known to this process. */
  readonly redact: (text: string) => string;
}

/** Lets at most so many through per second. */
export class LogLimit {
  readonly #clock: Clock;
  readonly #perSecond: number;
  #windowEnds = Number.NEGATIVE_INFINITY;
  #left = 0;

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  /** Whether nothing more is let through for now. */
  get exhausted(): boolean {
    return this.#left === 0 && this.#clock.now() < this.#windowEnds;
  }

  /** Whether this one is let through. */
  take(): boolean {
    const now = this.#clock.now();
    if (now >= this.#windowEnds) {
      this.#windowEnds = now + 1_000;
      this.#left = this.#perSecond;
    }
    if (this.#left === 0) return false;
    this.#left--;
    return true;
  }
}
