import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Target } from '../target.ts';

/** A caller's request that waits for the flight's answer. */
export interface SingleFlightWaiter {
  readonly target: Target;
  readonly request: Message;
  readonly exchange: Exchange;
  readonly settle: (outcome: Outcome) => void;
}

/**
 * One request to a server that several callers wait for. Each of them may cancel, and the others still get the answer; when
 * the last one has left, the server gets the cancellation.
 */
export class SingleFlight implements Exchange {
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  /** A question of the server's ends the flight: it is the affair of each caller alone. */
  readonly takesInputRequired = true;
  readonly sealsInput: boolean;
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  readonly #abandoned: () => void;
  readonly #waiters = new Set<SingleFlightWaiter>();

  /** `abandoned` is called when the last caller has left. */
  constructor(request: Message, first: Exchange, abandoned: () => void) {
    this.id = first.id;
    this.request = request;
    this.client = first.client;
    this.sealsInput = first.sealsInput === true;
    this.#abandoned = abandoned;
  }

  join(target: Target, request: Message, exchange: Exchange): Promise<Outcome> {
    return new Promise((settle) => {
      const waiter = { target, request, exchange, settle };
      if (exchange.cancelled === null) {
        this.#waiters.add(waiter);
        exchange.onCancel = (reason) => this.#leave(waiter, reason);
      } else this.#leave(waiter, exchange.cancelled);
    });
  }

  /** Those who still wait, for the last time. */
  takeWaiters(): readonly SingleFlightWaiter[] {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const { exchange } of waiters) exchange.onCancel = null;
    return waiters;
  }

  emit(notification: Message): void {
    for (const { exchange } of this.#waiters) exchange.emit(notification);
  }

  ask(request: Message): Promise<Message> {
    return Promise.reject(
      new GatewayError('MISSING_CAPABILITY', `there is no one client to ask for ${request.method}`),
    );
  }

  #leave(waiter: SingleFlightWaiter, reason: string): void {
    this.#waiters.delete(waiter);
    waiter.exchange.onCancel = null;
    waiter.settle(
      failure(new GatewayError('CANCELLED', 'the call was cancelled', { outcome: 'UNKNOWN', retryable: false })),
    );
    if (this.#waiters.size > 0 || this.cancelled !== null) return;
    this.cancelled = reason;
    this.#abandoned();
    this.onCancel?.(reason);
  }
}
