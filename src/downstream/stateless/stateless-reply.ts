import type { RequestContext } from '../../http/listener/request-context.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Endpoint, Exchange, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, isPassedOn, type Outcome } from '../../model/outcome.ts';
import type { EventSink } from '../../model/stream-copies.ts';
import { errorCode } from '../../protocol/body.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { oneLine, withId } from '../../protocol/splice.ts';
import { retryAfter, sendLastParts, sendParts } from '../endpoints/send.ts';
import { withPages } from '../pending-input/page-required.ts';
import type { PendingInputRequests } from '../pending-input/pending-input-requests.ts';
import type { Ageing, AgeQueue } from '../session/age-queue.ts';
import { answerMessage, notificationFor } from '../session/answer-parts.ts';
import type { ClientExchange, ExchangeList, Reply } from '../session/client-exchange.ts';
import { WaitingFlows } from '../session/waiting-flows.ts';

export interface StatelessReplyDeps {
  /** Opens SSE, and with it keep-alive comments, before a proxy gives up on a silent response. */
  readonly patience: AgeQueue;
  /** All stateless exchanges in flight. */
  readonly exchanges: ExchangeList;
  /** Calls whose servers ask, from round to round. */
  readonly pendingInput: PendingInputRequests;
}

/**
 * The answer to one POST of 2026-07-28: JSON, or an SSE stream of its own from the first notification on. Its events
 * have no ids, because there is no coming back; a lost connection cancels the request (streamable-http
 * §Cancellation).
 */
export class StatelessReply implements Reply, Ageing {
  dueAt = 0;
  earlier: Ageing | null = null;
  later: Ageing | null = null;
  readonly canAsk = true;
  readonly #deps: StatelessReplyDeps;
  readonly #endpoint: Endpoint;
  readonly #takesStream: boolean;
  #context: RequestContext | null;
  #sink: EventSink | null = null;
  #waiting: WaitingFlows | null = null;
  /** The exchange that this is the reply of; the code that makes both sets it. */
  exchange: ClientExchange | null = null;

  constructor(deps: StatelessReplyDeps, endpoint: Endpoint, context: RequestContext, takesStream: boolean) {
    this.#deps = deps;
    this.#endpoint = endpoint;
    this.#context = context;
    this.#takesStream = takesStream;
    if (takesStream) deps.patience.join(this);
    context.whenGone(() => this.exchange?.cancel('the client closed the connection'));
  }

  due(): void {
    this.#open();
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    const bytes = notificationFor('stateless', notification, exchange.client);
    const sink = bytes === null ? null : this.#open();
    if (sink === null) return;
    const droppable = exchange.request.method !== LISTEN;
    if (sink.event(null, [oneLine(bytes!)], droppable) || flow === null || sink.closed) return;
    this.#waiting ??= new WaitingFlows();
    this.#waiting.wait(flow, sink);
  }

  async askFor(exchange: ClientExchange, request: Message): Promise<Message> {
    this.exchange = this.#deps.pendingInput.begin(exchange, this.#deps.exchanges, this.#endpoint, null);
    return exchange.ask(request);
  }

  answer(exchange: ClientExchange, given: Outcome): void {
    const outcome = withPages(given, exchange, this.#endpoint, this.#deps.pendingInput);
    this.#deps.patience.leave(this);
    this.#deps.exchanges.remove(exchange);
    const message = answerMessage(exchange.request, this.#endpoint, outcome);
    const parts = withId(message, exchange.request.id);
    if (this.#sink !== null) {
      this.#sink.event(null, parts.map(oneLine));
      this.#sink.end();
    } else if (this.#context !== null) {
      if (isPassedOn(exchange.request, outcome)) sendLastParts(this.#context, httpStatus(message), parts);
      else sendParts(this.#context, httpStatus(message), parts, retryAfter(outcome));
    }
    this.#context = null;
  }

  cancelled(exchange: ClientExchange): void {
    this.#deps.patience.leave(this);
    this.#deps.exchanges.remove(exchange);
    this.#sink?.end();
    this.#context = null;
  }

  #open(): EventSink | null {
    if (this.#sink !== null || this.#context === null || !this.#takesStream) return this.#sink;
    this.#deps.patience.leave(this);
    this.#sink = this.#context.openSse();
    this.#context = null;
    return this.#sink;
  }
}

/** The HTTP status that 2026-07-28 gives to an answer (streamable-http §Protocol Version Header, §Server Validation). */
function httpStatus(answer: Message): number {
  if (answer.kind !== 'error') return 200;
  switch (errorCode(answer)) {
    case CATALOGUE.METHOD_NOT_FOUND.rpc:
      return 404;
    case CATALOGUE.HEADER_MISMATCH.rpc:
    case CATALOGUE.MISSING_CAPABILITY.rpc:
    case CATALOGUE.UNSUPPORTED_VERSION.rpc:
    case CATALOGUE.INVALID_REQUEST.rpc:
    case CATALOGUE.PARSE_ERROR.rpc:
      return 400;
    default:
      return 200;
  }
}

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
