import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { PendingRequest, RequestCarrier } from './pending.ts';

/** Decides how an ended attempt continues: with the call's outcome, or with another attempt. */
export interface CallOwner {
  answered(call: Call, message: Message): void;
  /** `carrier`: the connection that had the attempt; null if none had it. */
  lost(call: Call, error: GatewayError, carrier: RequestCarrier | null): void;
  /** The call has its outcome. */
  ended(call: Call, outcome: Outcome): void;
}

/** How long a client may take to answer a server's request; the call's own deadline is paused meanwhile. */
const ASK_MS = 15 * 60_000;

/** How long a call may take. */
export interface CallTiming {
  /** From the start, or from the last progress that the server reported; 0 for no deadline. */
  readonly timeoutMs: number;
  /** From the start; progress does not extend it. A longer `timeoutMs` raises it. */
  readonly maxTimeoutMs: number;
}

/** One `Upstreams.call` through all its attempts, until its single outcome. It costs one timer and one promise. */
export class Call implements PendingRequest {
  readonly server: string;
  /** The request as it is sent now: in a later round it contains the answers that the server asked for. */
  request: Message;
  readonly exchange: Exchange;
  /** The client as the partition of the server sees it. */
  client: ClientProfile;
  readonly method: string;
  /** How often the server answered that it needs input (2026-07-28 basic/patterns/mrtr). */
  rounds = 0;
  /** An attempt may have run: the call counts as sent even if the next attempt is not. */
  mayHaveRun = false;
  /** The client's own progress token as written, restored in the server's messages; null without one. */
  token: string | null = null;
  wire = '';
  /** `traceparent` of the call's span; null if no span is recorded. */
  trace: string | null = null;
  /** Attempts that were sent on a connection. */
  attempts = 0;
  /** The call has its outcome. */
  done = false;
  /** The headers of the last attempt that mirror the request; null for none. */
  mirrored: readonly string[] | null = null;
  /** Whether the tool list was fetched again because the server refused the headers made from it (-32020). */
  refreshed = false;
  /** Monotonic time. */
  readonly startedAt: number;
  readonly outcome: Promise<Outcome>;
  readonly #owner: CallOwner;
  readonly #timing: CallTiming;
  readonly #clock: Clock;
  #lastActivityAt: number;
  /** Open input requests, since when they are open, and how long earlier ones took in total. */
  #openInputRequests = 0;
  #inputWaitSince = 0;
  #inputWaitMs = 0;
  #resolve!: (outcome: Outcome) => void;
  #disarm: (() => void) | null = null;
  #carrier: RequestCarrier | null = null;
  #id = 0;

  constructor(
    owner: CallOwner,
    server: string,
    request: Message,
    exchange: Exchange,
    timing: CallTiming,
    clock: Clock,
  ) {
    this.#owner = owner;
    this.server = server;
    this.request = request;
    this.exchange = exchange;
    this.client = exchange.client;
    this.method = request.method;
    this.#timing = timing;
    this.#clock = clock;
    const now = clock.turnNow();
    this.startedAt = exchange.searchStartedAt ?? now;
    this.#lastActivityAt = this.startedAt;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    const { timeoutMs } = timing;
    if (timeoutMs > 0) {
      const leftMs = Math.max(0, this.startedAt + timeoutMs - now);
      this.#disarm = clock.after(leftMs, () => this.#expire());
    }
    exchange.onCancel = (reason) => this.#cancel(reason);
  }

  /** Milliseconds until the deadline. */
  get leftMs(): number {
    const { timeoutMs } = this.#timing;
    return timeoutMs > 0 ? this.#lastActivityAt + timeoutMs - this.#clock.now() : Number.POSITIVE_INFINITY;
  }

  /** A connection has taken the attempt, under this id. */
  place(carrier: RequestCarrier, id: number): void {
    this.#carrier = carrier;
    this.#id = id;
    this.attempts++;
    if (this.exchange.attempts !== undefined) this.exchange.attempts.carrier = carrier;
  }

  answered(message: Message): void {
    this.#carrier = null;
    if (!this.done) this.#owner.answered(this, message);
  }

  lost(error: GatewayError): void {
    const carrier = this.#carrier;
    this.#carrier = null;
    if (!this.done) this.#owner.lost(this, error, carrier);
  }

  succeed(message: Message): void {
    this.#finish(answer(message));
  }

  /** The error describes only the last attempt; an earlier attempt or round may have reached the server. */
  fail(error: GatewayError): void {
    this.#finish(failure(this.rounds === 0 && !this.mayHaveRun ? error : error.begun(this)));
  }

  /** The server reported progress: the deadline restarts now, up to the maximum. Costs no timer. */
  progressed(): void {
    this.#lastActivityAt = this.#clock.now();
  }

  /** The call waits for an answer of its client: the deadline is paused until the matching `resumeDeadline`. */
  pauseDeadline(): void {
    if (this.#openInputRequests++ > 0 || this.done) return;
    this.#inputWaitSince = this.#clock.now();
    this.#disarm?.();
    this.#disarm = this.#clock.after(ASK_MS, () => this.#unanswered());
  }

  resumeDeadline(): void {
    if (--this.#openInputRequests > 0 || this.done) return;
    const now = this.#clock.now();
    this.#inputWaitMs += now - this.#inputWaitSince;
    this.#lastActivityAt = now;
    const { timeoutMs } = this.#timing;
    this.#disarm?.();
    this.#disarm = timeoutMs > 0 ? this.#clock.after(timeoutMs, () => this.#expire()) : null;
  }

  #unanswered(): void {
    this.#disarm = null;
    const text = `the client did not answer what ${this.server} asked it`;
    this.#withdraw('cancelled', 'the client did not answer', () => this.#error('TIMEOUT', text, true));
  }

  #expire(): void {
    const { timeoutMs, maxTimeoutMs } = this.#timing;
    const now = this.#clock.now();
    const last = this.startedAt + this.#inputWaitMs + Math.max(timeoutMs, maxTimeoutMs);
    const end = Math.min(this.#lastActivityAt + timeoutMs, last);
    if (end > now) {
      this.#disarm = this.#clock.after(end - now, () => this.#expire());
      return;
    }
    this.#disarm = null;
    const elapsed = Math.round(now - this.startedAt);
    const text = `${this.server} did not answer ${this.method} within ${elapsed} ms`;
    this.#withdraw('timeout', 'the deadline ran out', (sent) => this.#error('TIMEOUT', text, sent));
  }

  #cancel(reason: string): void {
    const text = 'the call was cancelled';
    this.#withdraw('cancelled', reason, (sent) => this.#error('CANCELLED', text, sent || this.rounds > 0));
  }

  #error(code: 'TIMEOUT' | 'CANCELLED', message: string, sent: boolean): GatewayError {
    return new GatewayError(code, message, {
      outcome: sent ? 'UNKNOWN' : 'NOT_SENT',
      retryable: !sent && code === 'TIMEOUT',
      server: this.server,
      attempts: this.attempts,
    });
  }

  /** Cancels the attempt and fails the call, even if cancelling throws. `sent`: the server may have seen the attempt. */
  #withdraw(why: 'timeout' | 'cancelled', reason: string, error: (sent: boolean) => GatewayError): void {
    const carrier = this.#carrier;
    this.#carrier = null;
    let sent = carrier !== null;
    try {
      sent = carrier?.withdraw(this.#id, why, reason) ?? false;
    } finally {
      this.fail(error(sent));
    }
  }

  #finish(outcome: Outcome): void {
    if (this.done) return;
    this.done = true;
    // First, so that the caller gets its outcome even if the rest throws.
    this.#resolve(outcome);
    this.#disarm?.();
    this.exchange.onCancel = null;
    this.#owner.ended(this, outcome);
  }
}
