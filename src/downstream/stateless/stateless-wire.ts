import type { Principal } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Endpoint, Flow } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import { bodyLexeme } from '../../protocol/body.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { oneLine } from '../../protocol/splice.ts';
import { withPages } from '../pending-input/page-required.ts';
import { answerParts, notificationFor } from '../session/answer-parts.ts';
import { ClientExchange, type Reply } from '../session/client-exchange.ts';
import { MAX_IN_FLIGHT } from '../session/session-intake.ts';
import type { SharedWire } from '../session/shared-channel.ts';
import { StatelessIntake, type StatelessIntakeDeps } from './stateless-intake.ts';

/** Requests of 2026-07-28 on a wire that carries everything: distinguished by their ids, cancelled by notification. */
export class StatelessWire implements Reply {
  readonly intake: StatelessIntake;
  readonly canAsk = true;
  readonly #deps: StatelessIntakeDeps;
  readonly #wire: SharedWire;
  readonly #principal: Principal;
  readonly #endpoint: Endpoint;

  constructor(deps: StatelessIntakeDeps, wire: SharedWire, principal: Principal, endpoint: Endpoint) {
    this.#deps = deps;
    this.intake = new StatelessIntake(deps);
    this.#wire = wire;
    this.#principal = principal;
    this.#endpoint = endpoint;
  }

  take(inbound: StatelessInbound): void {
    const { message } = inbound;
    const client = this.intake.senderOf(inbound, this.#principal, null);
    if (message.kind !== 'request') {
      if (!this.cancels(message)) this.#deps.core.notify(this.#endpoint, message, client);
      return;
    }
    if (this.intake.exchanges.size >= MAX_IN_FLIGHT) {
      this.#wire.write(
        errorAnswer(message.id, CATALOGUE.INVALID_REQUEST.rpc, 'Too many requests in flight', null, 'stateless').bytes,
      );
      return;
    }
    const exchange = new ClientExchange(message, client, this);
    void this.intake.run(exchange, this.#endpoint, this.intake.returning(exchange, this.#endpoint, null));
  }

  /** Whether the notification cancels one of these requests; if so, it has. */
  cancels(notification: Message): boolean {
    if (notification.method !== 'notifications/cancelled') return false;
    const id = bodyLexeme(notification, 'requestId');
    if (id === null) return false;
    const exchange = this.intake.exchanges.find(id);
    exchange?.cancel('the client cancelled the request');
    return exchange !== null;
  }

  close(reason: string): void {
    this.intake.exchanges.cancelAll(reason);
    this.#deps.pendingInput.left(this, reason);
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    const bytes = notificationFor('stateless', notification, exchange.client);
    if (bytes !== null) this.#wire.write(oneLine(bytes), true, flow);
  }

  async askFor(exchange: ClientExchange, request: Message): Promise<Message> {
    this.#deps.pendingInput.begin(exchange, this.intake.exchanges, this.#endpoint, this);
    return exchange.ask(request);
  }

  answer(exchange: ClientExchange, given: Outcome): void {
    const outcome = withPages(given, exchange, this.#endpoint, this.#deps.pendingInput);
    this.intake.exchanges.remove(exchange);
    const parts = answerParts(exchange.request, this.#endpoint, outcome);
    this.#wire.write(oneLine(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
  }

  cancelled(exchange: ClientExchange): void {
    this.intake.exchanges.remove(exchange);
  }
}
