import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { refusalOf } from '../transport/http-refusal.ts';

/** Answers of 5xx in a row, with nothing better between them. */
const FAILURES_TILL_OUT = 5;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
/** A call that finds out may take its time, and a subscription is never answered: another one may try meanwhile. */
const TRIAL_MS = 5_000;

/**
 * A server that answers nothing but 5xx is left alone for a while (F23), then one call tries; if that fails, the wait
 * doubles. Other failures change nothing. If all failures were one caller's, only that caller is held back.
 */
export class OutlierEjection<Call> {
  readonly #clock: Clock;
  readonly #callerOf: (call: Call) => string;
  #failures = 0;
  /** Whose those all were; null for several callers. */
  #caller: string | null = null;
  /** 0: it is not out. */
  #waitMs = 0;
  #until = 0;
  #trial: Call | null = null;

  /** `callerOf`: the identity of the caller. */
  constructor(clock: Clock, callerOf: (call: Call) => string) {
    this.#clock = clock;
    this.#callerOf = callerOf;
  }

  /** Why this call is not sent; null where it may be. */
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
    const words = `${server}: its last ${this.#failures} answers were HTTP errors (5xx); it is left alone for a moment`;
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

  /** However it ended: the next one may try. */
  ended(call: Call): void {
    if (this.#trial !== call) return;
    this.#trial = null;
    this.#until = this.#clock.now();
  }
}
