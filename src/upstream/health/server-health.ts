import type { GatewayError } from '../../model/gateway-error.ts';
import { failureClass } from './failure-class.ts';

/** Calls in a row that failed. */
export const FAILURES_TILL_UNHEALTHY = 3;

/**
 * What is thought of the health of a server that is up, from two witnesses: its calls and the probe. Each can find it
 * unhealthy whatever the other says, and only an answer to the same kind of question makes up for it. Tells each turn
 * once.
 */
export class ServerHealth {
  readonly #turned: (reason: string | null) => void;
  #failedCalls = 0;
  #callReason: string | null = null;
  #probeReason: string | null = null;

  /** `turned`: it is unhealthy for this reason, or healthy again (null). Must not throw. */
  constructor(turned: (reason: string | null) => void) {
    this.#turned = turned;
  }

  get healthy(): boolean {
    return this.reason === null;
  }

  get reason(): string | null {
    return this.#callReason ?? this.#probeReason;
  }

  /** Whatever the answer is: what a tool says went wrong is no failure of its server (S3.8). */
  callAnswered(): void {
    if (this.#failedCalls === 0) return;
    this.#failedCalls = 0;
    this.#tellOf(() => {
      this.#callReason = null;
    });
  }

  callFailed(error: GatewayError): void {
    if (error.code === 'OVERLOADED' || failureClass(error) === 'abort') return;
    // A refusal is not: the server was there to say no.
    if (error.outcome === 'NOT_SENT' && !error.data.retryable) return;
    this.callsFailed(this.#failedCalls + 1, error.message);
  }

  callsFailed(count: number, reason: string): void {
    this.#failedCalls = count;
    if (count < FAILURES_TILL_UNHEALTHY) return;
    this.#tellOf(() => {
      this.#callReason = `${count} calls in a row failed: ${reason}`;
    });
  }

  /** null: the probe was answered. */
  probed(failure: string | null): void {
    this.#tellOf(() => {
      this.#probeReason = failure;
    });
  }

  /** A new run of the server: nothing of the last one counts. */
  startedAnew(): void {
    this.#failedCalls = 0;
    this.#callReason = null;
    this.#probeReason = null;
  }

  #tellOf(change: () => void): void {
    const before = this.healthy;
    change();
    if (this.healthy !== before) this.#turned(this.reason);
  }
}
