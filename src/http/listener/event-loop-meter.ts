import { performance } from 'node:perf_hooks';

export interface EventLoopMeterOptions {
  /** Length of a span; each span with turns in it is reported once. 100 ms. */
  readonly spanMs?: number;
  readonly now?: () => number;
  /** The share of time since the last call in which the event loop was not idle. */
  readonly utilization?: () => number;
}

/** Measurements of a span. */
export interface Span {
  /** The turn that the average request met. */
  readonly turnMs: number;
  /** 0 to 1. */
  readonly utilization: number;
  /** When the span ended. */
  readonly now: number;
}

const SPAN_MS = 100;

/**
 * Measures the turns of the event loop in which requests arrive (goal:G20). Long turns count for more: the result is the
 * turn that the average request met.
 */
export class EventLoopMeter {
  readonly #spanMs: number;
  readonly #now: () => number;
  readonly #onTurn: () => void;
  readonly #utilization: () => number;
  readonly #onSpan: (span: Span) => void;
  readonly #end = (): void => this.#ended();
  #isMeasuring = false;
  #since = 0;
  #spanSince = 0;
  #sum = 0;
  #squares = 0;

  /** `onTurn` is called at the end of a measured turn, after `onSpan` if a span ends with it. */
  constructor(
    onTurn: () => void,
    onSpan: (span: Span) => void,
    { spanMs = SPAN_MS, now = () => performance.now(), utilization = loopUtilization() }: EventLoopMeterOptions = {},
  ) {
    this.#onTurn = onTurn;
    this.#onSpan = onSpan;
    this.#spanMs = spanMs;
    this.#now = now;
    this.#utilization = utilization;
    this.#spanSince = now();
  }

  /** Whether this turn is being measured; if not, `begin` starts that. */
  get measuring(): boolean {
    return this.#isMeasuring;
  }

  /** Returns when the turn began. */
  begin(): number {
    if (this.#isMeasuring) return this.#since;
    this.#isMeasuring = true;
    this.#since = this.#now();
    // Runs when everything that had arrived has been processed.
    setImmediate(this.#end);
    return this.#since;
  }

  #ended(): void {
    this.#isMeasuring = false;
    const now = this.#now();
    const took = now - this.#since;
    this.#sum += took;
    this.#squares += took * took;
    if (now - this.#spanSince >= this.#spanMs) {
      const turnMs = this.#sum === 0 ? 0 : this.#squares / this.#sum;
      this.#sum = 0;
      this.#squares = 0;
      this.#spanSince = now;
      this.#onSpan({ turnMs, utilization: this.#utilization(), now });
    }
    this.#onTurn();
  }
}

function loopUtilization(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}
