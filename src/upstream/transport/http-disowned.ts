import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { ClosedReason } from './transport.ts';

const NONE: ReadonlyMap<number, GatewayError> = new Map();

/**
 * The short time between the server's word that it does not know the session or the credentials and the end of the
 * connection. Requests under way at that moment most likely get the same word, which makes them safe to retry: so
 * they are waited for, briefly. The losses are held and reported together at the end, so that a retry meets
 * a connection that has ended and makes a new one.
 */
export class HttpDisowned {
  readonly #clock: Clock;
  readonly #settleMs: number;
  readonly #end: (reason: ClosedReason) => void;
  /** Null while there is nothing: of most connections there never is. */
  #held: Map<number, GatewayError> | null = null;
  #reason: ClosedReason | null = null;
  #stop: (() => void) | null = null;

  constructor(clock: Clock, settleMs: number, end: (reason: ClosedReason) => void) {
    this.#clock = clock;
    this.#settleMs = settleMs;
    this.#end = end;
  }

  /** Why the connection is about to end; null while it is not. */
  get reason(): ClosedReason | null {
    return this.#reason;
  }

  hold(request: number, error: GatewayError): void {
    this.#held ??= new Map();
    this.#held.set(request, error);
  }

  forget(request: number): void {
    this.#held?.delete(request);
  }

  /** The first reason counts. `waiting`: whether requests are still without any word of the server. */
  begin(reason: ClosedReason, waiting: boolean): void {
    this.#reason ??= reason;
    this.settled(waiting);
  }

  /** To be called when a request has got its word; the time for the others begins anew. */
  settled(waiting: boolean): void {
    const reason = this.#reason;
    if (reason === null) return;
    this.#stop?.();
    this.#stop = null;
    if (waiting) this.#stop = this.#clock.after(this.#settleMs, () => this.#end(reason));
    else this.#end(reason);
  }

  /** Hands over what was held and does nothing from now on. */
  take(): ReadonlyMap<number, GatewayError> {
    this.#stop?.();
    this.#stop = null;
    const held = this.#held ?? NONE;
    this.#held = null;
    return held;
  }
}
