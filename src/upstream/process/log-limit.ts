import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';

/** The part of the logger that is needed here. */
export type ProcessLog = Pick<Logger, 'info' | 'warn' | 'keep' | 'redact'>;

/** What readers of a process's output need beside the output. */
export interface OutputOptions {
  readonly logger: ProcessLog;
  readonly clock: Clock;
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
