import type { Endpoint, Exchange, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { ClientExchange, Reply } from '../session/client-exchange.ts';
import type { StatelessReplyDeps } from './stateless-reply.ts';

/**
 * The way back to a stateless client that came to another node of the cluster, which puts what it is given into the
 * client's words.
 */
export class ReplyElsewhere implements Reply {
  readonly canAsk = true;
  readonly #deps: StatelessReplyDeps;
  readonly #endpoint: Endpoint;
  readonly #caller: Exchange;
  readonly #ended: (outcome: Outcome) => void;
  /** The exchange that this is the reply of; the code that makes both sets it. */
  exchange: ClientExchange | null = null;

  constructor(deps: StatelessReplyDeps, endpoint: Endpoint, caller: Exchange, ended: (outcome: Outcome) => void) {
    this.#deps = deps;
    this.#endpoint = endpoint;
    this.#caller = caller;
    this.#ended = ended;
  }

  notify(_exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    this.#caller.emit(notification, flow);
  }

  async askFor(exchange: ClientExchange, request: Message): Promise<Message> {
    this.exchange = this.#deps.pendingInput.begin(exchange, this.#deps.exchanges, this.#endpoint, null);
    return exchange.ask(request);
  }

  answer(exchange: ClientExchange, outcome: Outcome): void {
    this.#deps.exchanges.remove(exchange);
    this.#ended(outcome);
  }

  cancelled(exchange: ClientExchange): void {
    this.#deps.exchanges.remove(exchange);
    this.#ended(failure(new GatewayError('CANCELLED', exchange.cancelled ?? 'the client has gone')));
  }
}
