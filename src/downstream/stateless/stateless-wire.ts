import type { Core } from '../../gateway/gateway.ts';
import type { Principal } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Endpoint, Flow } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import { bodyLexeme } from '../../protocol/body.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { oneLine } from '../../protocol/splice.ts';
import type { Fingerprints } from '../endpoints/fingerprints.ts';
import { discoverAnswer } from '../endpoints/handshake-answer.ts';
import { withPages } from '../pending-input/page-required.ts';
import type { PendingInputRequests } from '../pending-input/pending-input-requests.ts';
import { answerParts, notificationFor } from '../session/answer-parts.ts';
import { ClientExchange, ExchangeList, type Reply } from '../session/client-exchange.ts';
import { MAX_IN_FLIGHT, settle } from '../session/session-intake.ts';
import type { SharedWire } from '../session/shared-channel.ts';
import { completeListens, goesBack, sealsInput, senderOf } from './stateless-request.ts';

interface StatelessWireDeps {
  readonly core: Core;
  readonly fingerprints: Fingerprints;
  /** Calls whose servers ask, from round to round. */
  readonly pendingInput: PendingInputRequests;
}

/** Requests of 2026-07-28 on a wire that carries everything: distinguished by their ids, cancelled by notification. */
export class StatelessWire implements Reply {
  readonly exchanges = new ExchangeList();
  readonly canAsk = true;
  readonly #deps: StatelessWireDeps;
  readonly #wire: SharedWire;
  readonly #principal: Principal;
  readonly #endpoint: Endpoint;

  constructor(deps: StatelessWireDeps, wire: SharedWire, principal: Principal, endpoint: Endpoint) {
    this.#deps = deps;
    this.#wire = wire;
    this.#principal = principal;
    this.#endpoint = endpoint;
  }

  take(inbound: StatelessInbound): void {
    const { message } = inbound;
    const { core, fingerprints } = this.#deps;
    const client = senderOf(inbound, this.#principal, fingerprints, null);
    if (message.kind !== 'request') {
      if (!this.cancels(message)) core.notify(this.#endpoint, message, client);
      return;
    }
    if (this.exchanges.size >= MAX_IN_FLIGHT) {
      this.#wire.write(
        errorAnswer(message.id, CATALOGUE.INVALID_REQUEST.rpc, 'Too many requests in flight', null, 'stateless').bytes,
      );
      return;
    }
    const returning = this.#deps.pendingInput.returning(message, this.#principal, this.#endpoint, null);
    const request = returning?.kind === 'again' ? returning.request : message;
    const exchange = new ClientExchange(request, client, this);
    exchange.sealsInput = sealsInput(this.#endpoint, this.#principal);
    this.exchanges.add(exchange);
    if (goesBack(exchange, returning)) return;
    if (message.method === 'server/discover') {
      void settle(exchange, discoverAnswer(core, message, this.#endpoint, client));
    } else void settle(exchange, core.run(exchange, this.#endpoint));
  }

  /** Whether the notification cancels one of these requests; if so, it has. */
  cancels(notification: Message): boolean {
    if (notification.method !== 'notifications/cancelled') return false;
    const id = bodyLexeme(notification, 'requestId');
    if (id === null) return false;
    const exchange = this.exchanges.find(id);
    exchange?.cancel('the client cancelled the request');
    return exchange !== null;
  }

  completeListens(reason: string): void {
    completeListens(this.exchanges, reason);
  }

  close(reason: string): void {
    this.exchanges.cancelAll(reason);
    this.#deps.pendingInput.left(this, reason);
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    const bytes = notificationFor('stateless', notification, exchange.client);
    if (bytes !== null) this.#wire.write(oneLine(bytes), true, flow);
  }

  async askFor(exchange: ClientExchange, request: Message): Promise<Message> {
    this.#deps.pendingInput.begin(exchange, this.exchanges, this.#endpoint, this);
    return exchange.ask(request);
  }

  answer(exchange: ClientExchange, given: Outcome): void {
    const outcome = withPages(given, exchange, this.#endpoint, this.#deps.pendingInput);
    this.exchanges.remove(exchange);
    const parts = answerParts(exchange.request, this.#endpoint, outcome);
    this.#wire.write(oneLine(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
  }

  cancelled(exchange: ClientExchange): void {
    this.exchanges.remove(exchange);
  }
}
