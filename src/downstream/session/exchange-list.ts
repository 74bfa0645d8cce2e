import type { ClientExchange } from './client-exchange.ts';

/**
 * The exchanges in flight of one client, linked through the exchanges themselves: joining and leaving allocate
 * nothing, and a client that uses one id for several calls at once loses none of them.
 */
export class ExchangeList {
  #first: ClientExchange | null = null;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(exchange: ClientExchange): void {
    exchange.previous = null;
    exchange.next = this.#first;
    if (this.#first !== null) this.#first.previous = exchange;
    this.#first = exchange;
    this.#size++;
  }

  /** To be called once for an exchange that was added. */
  remove(exchange: ClientExchange): void {
    if (exchange.previous === null) this.#first = exchange.next;
    else exchange.previous.next = exchange.next;
    if (exchange.next !== null) exchange.next.previous = exchange.previous;
    exchange.previous = null;
    exchange.next = null;
    this.#size--;
  }

  /** The youngest exchange whose request has this id, as written. */
  find(id: string): ClientExchange | null {
    for (let exchange = this.#first; exchange !== null; exchange = exchange.next) {
      if (exchange.request.id === id) return exchange;
    }
    return null;
  }

  /** A copy, so that members may leave while it is walked. */
  all(): ClientExchange[] {
    const members: ClientExchange[] = [];
    for (let exchange = this.#first; exchange !== null; exchange = exchange.next) members.push(exchange);
    return members;
  }

  /** Cancels all of them; they leave the list when their outcomes come. */
  cancelAll(reason: string): void {
    if (this.#size === 0) return;
    for (const exchange of this.all()) exchange.cancel(reason);
  }
}
