import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { refusalOf } from '../transport/http-refusal.ts';

/** Consecutive 5xx answers that eject a server. */
const FAILURES_TILL_OUT = 5;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
/** How long one trial call blocks the next: a trial may be slow, and a subscription is never answered. */
const TRIAL_MS = 5_000;

/**
 * Outlier ejection (F23): a server that answers only 5xx gets no calls for a while, then one trial call; each failed trial
 * doubles the wait. Other failures do not count. If all failures were one caller's, only that caller is held back.
 */
export class OutlierEjection<Call> {
  readonly #clock: Clock;
  readonly #callerOf: (call: Call) => string;
  #failures = 0;
  /** The caller of all these failures; null if there were several. */
  #caller: string | null = null;
  /** 0: the server is not ejected. */
  #waitMs = 0;
  #until = 0;
  #trial: Call | null = null;

  /** `callerOf`: returns the caller's identity. */
  constructor(clock: Clock, callerOf: (call: Call) => string) {
    this.#clock = clock;
    this.#callerOf = callerOf;
  }

  /** The error for a call that must not be sent; null if it may be sent. */
  refusal(call: Call, server: string): GatewayError | null {
    if (this.#waitMs === 0 || this.#trial === call) return null;
    if (this.#caller !== null && this.#caller !== this.#callerOf(call)) return null;
    const now = this.#clock.now();
    const leftMs = this.#until - now;
    if (leftMs <= 0) {
      this.#trial = call;
      this.#until = now + TRIAL_MS;
      return null;
    }
    const seconds = Math.ceil(leftMs / 1_000);
    const words = `${server}: its last ${this.#failures} answers were HTTP errors (5xx); it gets no calls for ${seconds} s`;
    return new GatewayError('NOT_SENT', words, { server, retryAfterMs: Math.max(FIRST_WAIT_MS, Math.ceil(leftMs)) });
  }

  answered(): void {
    this.#failures = 0;
    this.#waitMs = 0;
    this.#trial = null;
  }

  failed(call: Call, error: GatewayError): void {
    const tried = this.#trial === call;
    this.ended(call);
    if ((refusalOf(error)?.status ?? 0) < 500) return;
    const caller = this.#callerOf(call);
    if (this.#failures++ === 0) this.#caller = caller;
    else if (this.#caller !== caller) this.#caller = null;
    if (!tried && (this.#waitMs > 0 || this.#failures < FAILURES_TILL_OUT)) return;
    this.#waitMs = Math.min(LONGEST_WAIT_MS, this.#waitMs === 0 ? FIRST_WAIT_MS : this.#waitMs * 2);
    this.#until = this.#clock.now() + this.#waitMs;
  }

  /** A trial call ended without a verdict: the next call is the trial. */
  ended(call: Call): void {
    if (this.#trial !== call) return;
    this.#trial = null;
    this.#until = this.#clock.now();
  }
}
