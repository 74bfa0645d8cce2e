import type { ClientExchange } from './client-exchange.ts';
import type { ExchangeList } from './exchange-list.ts';

/** As long as the event log keeps what a client may come back to. */
const RETURN_MS = 5 * 60_000;

/**
 * Ends waits whose client has gone. A lost connection is no cancellation, so a call goes on; but `tasks/result` does
 * nothing except wait, possibly for ever, and would keep its session from ever being idle. Whoever comes back later
 * asks again: the task itself goes on.
 */
export class LeftWaits {
  /** Clock readings: since when no client has been seen. */
  readonly #since = new WeakMap<ClientExchange, number>();

  sweep(exchanges: ExchangeList, now: number): void {
    for (const exchange of exchanges.all()) {
      if (exchange.request.method !== 'tasks/result') continue;
      if (exchange.reply.unheard !== true) {
        this.#since.delete(exchange);
        continue;
      }
      const since = this.#since.get(exchange) ?? now;
      this.#since.set(exchange, since);
      if (now - since >= RETURN_MS) exchange.cancel('the client has gone and did not come back');
    }
  }
}
