import type { Endpoint, Exchange, Exchanges } from '../model/exchange.ts';
import type { Outcome } from '../model/outcome.ts';

/** The way of calls that no client has sent: of the program around the gateway and of the operator. Counts what is under way. */
export class OwnCalls implements Exchanges {
  readonly #exchanges: Exchanges;
  #inFlight = 0;

  constructor(exchanges: Exchanges) {
    this.#exchanges = exchanges;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  async run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    this.#inFlight++;
    try {
      return await this.#exchanges.run(exchange, endpoint);
    } finally {
      this.#inFlight--;
    }
  }
}
