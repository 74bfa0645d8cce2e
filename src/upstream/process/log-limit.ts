import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';

/** The part of the logger used here. */
export type ProcessLog = Pick<Logger, 'info' | 'warn' | 'publish' | 'redact'>;

/** Dependencies of readers of a process's output. */
export interface OutputOptions {
  readonly logger: ProcessLog;
  readonly clock: Clock;
}

/** Rate limit: allows this many log lines per second. */
export class LogLimit {
  readonly #clock: Clock;
  readonly #perSecond: number;
  #windowEnds = Number.NEGATIVE_INFINITY;
  #left = 0;

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  /** Whether the limit is reached for now. */
  get exhausted(): boolean {
    return this.#left === 0 && this.#clock.now() < this.#windowEnds;
  }

  /** Whether this line is allowed. */
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
