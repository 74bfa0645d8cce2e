import { performance } from 'node:perf_hooks';

export interface EventLoopMeterOptions {
  /** Length of a span; reported once for each in which there were turns. 100 ms. */
  readonly spanMs?: number;
  readonly now?: () => number;
  /** The part of the time since it was last asked in which the event loop did not wait for anything. */
  readonly utilization?: () => number;
}

/** What a span was like. */
export interface Span {
  /** The turn that the average request met. */
  readonly turnMs: number;
  /** 0 to 1. */
  readonly utilization: number;
  /** When it ended. */
  readonly now: number;
}

const SPAN_MS = 100;

/**
 * How long the turns of the event loop are in which requests come in (goal:G20). Long turns count for more: the figure
 * is the turn that the average request met.
 */
export class EventLoopMeter {
  readonly #spanMs: number;
  readonly #now: () => number;
  readonly #onTurn: () => void;
  readonly #utilization: () => number;
  readonly #onSpan: (span: Span) => void;
  readonly #end = (): void => this.#ended();
  #begun = false;
  #since = 0;
  #spanSince = 0;
  #sum = 0;
  #squares = 0;

  /** `onTurn` is called when a turn that was begun has ended, after `onSpan` where a span has too. */
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

  /** Whether the turn is being measured; where not, `begin` does. */
  get begun(): boolean {
    return this.#begun;
  }

  /** When it began. */
  begin(): number {
    if (this.#begun) return this.#since;
    this.#begun = true;
    this.#since = this.#now();
    // Runs when everything that had arrived has been handed out.
    setImmediate(this.#end);
    return this.#since;
  }

  #ended(): void {
    this.#begun = false;
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
