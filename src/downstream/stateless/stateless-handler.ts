import { mayKeepOpen } from '../../gateway/policy/access.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import type { Principal } from '../../model/client-profile.ts';
import { Counts } from '../../model/counts.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Endpoint, Exchange, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, isPassedOn, type Outcome } from '../../model/outcome.ts';
import type { EventSink } from '../../model/stream-copies.ts';
import { errorCode } from '../../protocol/body.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { oneLine, withId } from '../../protocol/splice.ts';
import type { ClientTransportDeps } from '../client-transport-deps.ts';
import { retryAfter, sendError, sendLastParts, sendParts } from '../endpoints/send.ts';
import type { Admitted } from '../identity/gate.ts';
import type { RetryMatch } from '../pending-input/pending-input-requests.ts';
import { withUrlElicitations } from '../pending-input/url-elicitation-required.ts';
import { answerMessage, notificationFor } from '../session/answer-parts.ts';
import { ClientExchange, type ExchangeList, type Reply } from '../session/client-exchange.ts';
import type { DelayQueue, DelayQueueItem } from '../session/delay-queue.ts';
import { PausedFlows } from '../session/paused-flows.ts';
import { StatelessIntake } from './stateless-intake.ts';

interface StatelessHandlerDeps extends ClientTransportDeps {
  /** Returns the current desired state. */
  readonly state: () => Pick<DesiredState, 'agents'>;
  /** Opens SSE, whose keep-alive comments prevent proxies from closing a silent response. */
  readonly patience: DelayQueue;
}

/** Stateless requests in flight, of all clients, without listens; further ones are refused, not queued. */
const MAX_EXCHANGES = 8_192;

/** Requests of 2026-07-28: each one is self-contained, and nothing of it is stored. */
export class StatelessHandler {
  readonly intake: StatelessIntake;
  readonly #deps: StatelessHandlerDeps;
  readonly #reply: StatelessReplyDeps;
  /** Listening streams by principal. */
  readonly #listens = new Counts();

  constructor(deps: StatelessHandlerDeps) {
    this.#deps = deps;
    this.intake = new StatelessIntake(deps);
    const { patience, pendingInput, wires } = deps;
    this.#reply = { patience, exchanges: this.intake.exchanges, pendingInput, wires };
  }

  take(
    context: RequestContext,
    inbound: StatelessInbound,
    { endpoint, principal }: Admitted,
    takesStream: boolean,
  ): void {
    const { message } = inbound;
    const { core, endpoints } = this.#deps;
    const { headers } = context;
    const forwarded = endpoints.forwardedOf(endpoint, headers);
    const client = this.intake.senderOf(inbound, principal, endpoints.handleOf(endpoint, headers), forwarded);
    if (message.kind !== 'request') {
      // Over HTTP the end of the connection cancels a request; the notification can name none.
      if (message.method !== 'notifications/cancelled') core.notify(endpoint, message, client);
      context.empty(202);
      return;
    }
    const listens = message.method === LISTEN;
    if (listens && this.#full(principal)) {
      sendError(context, 429, 'Too many listening streams', message.id, ['retry-after', '10']);
      return;
    }
    if (!listens && this.#hasItsShare(principal)) {
      sendError(context, 429, 'Too many requests of this caller in flight', message.id, ['retry-after', '1']);
      return;
    }
    if (!listens && this.intake.exchanges.size - this.#listens.total >= MAX_EXCHANGES) {
      sendError(context, 503, 'Too many requests in flight', message.id, ['retry-after', '1']);
      return;
    }
    const reply = new StatelessReply(this.#reply, endpoint, context, takesStream);
    const exchange = new ClientExchange(message, client, reply, headers);
    reply.exchange = exchange;
    if (listens) this.#listens.add(principal.id, 1);
    const running = this.intake.run(exchange, endpoint, this.intake.matchRetry(exchange, endpoint, headers));
    if (listens) void running?.then(() => this.#listens.add(principal.id, -1));
  }

  /** Handles a request that a client sent to another node with a `requestState` of this one. Never rejects. */
  runForwarded(caller: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const headers = caller.paramHeaders ?? null;
    return new Promise((resolve) => {
      const reply = new ForwardedReply(this.#reply, endpoint, caller, resolve);
      const exchange = new ClientExchange(caller.request, caller.client, reply, headers);
      const returning = this.intake.matchRetry(exchange, endpoint, headers);
      reply.exchange = exchange;
      caller.onCancel = (reason) => reply.exchange?.cancel(reason);
      const here = returning !== null && returning.kind !== 'elsewhere';
      void this.intake.run(exchange, endpoint, here ? returning : NOT_HERE);
    });
  }

  /** Ends the listening streams whose caller's rights or key changed; their clients reconnect with the new ones. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    const reason = 'the rights or the key of the caller have changed';
    this.intake.completeListens(reason, ({ client: { principal } }) => !mayKeepOpen(principal, current(principal.id)));
  }

  /** Whether the caller has half of all requests that may be in flight; without agents there is no other caller. */
  #hasItsShare({ id }: Principal): boolean {
    const { exchanges } = this.intake;
    if (exchanges.size < MAX_EXCHANGES / 2 || this.#deps.state().agents.size === 0) return false;
    return exchanges.of(id) - this.#listens.of(id) >= MAX_EXCHANGES / 2;
  }

  #full({ id }: Principal): boolean {
    const { max, maxPerPrincipal } = this.#deps.settings();
    return this.#listens.total >= max || this.#listens.of(id) >= maxPerPrincipal;
  }
}

const NOT_HERE: RetryMatch = {
  kind: 'refused',
  error: new GatewayError('INVALID_PARAMS', 'params.requestState is not of this node'),
};

interface StatelessReplyDeps extends Pick<StatelessHandlerDeps, 'patience' | 'pendingInput' | 'wires'> {
  /** All stateless exchanges in flight. */
  readonly exchanges: ExchangeList;
}

/**
 * The answer to one POST of 2026-07-28: JSON, or an SSE stream of its own from the first notification on. Its events have
 * no ids, because the stream cannot be resumed; a lost connection cancels the request (streamable-http §Cancellation).
 */
class StatelessReply implements Reply, DelayQueueItem {
  dueAt = 0;
  earlier: DelayQueueItem | null = null;
  later: DelayQueueItem | null = null;
  readonly canAsk = true;
  readonly #deps: StatelessReplyDeps;
  readonly #endpoint: Endpoint;
  readonly #takesStream: boolean;
  #context: RequestContext | null;
  #sink: EventSink | null = null;
  #waiting: PausedFlows | null = null;
  /** The exchange that gets this reply; set by the code that creates both. */
  exchange: ClientExchange | null = null;

  constructor(deps: StatelessReplyDeps, endpoint: Endpoint, context: RequestContext, takesStream: boolean) {
    this.#deps = deps;
    this.#endpoint = endpoint;
    this.#context = context;
    this.#takesStream = takesStream;
    if (takesStream) deps.patience.join(this);
    context.onDisconnect(() => this.exchange?.cancel('the client closed the connection'));
  }

  onDue(): void {
    this.#open();
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    const bytes = notificationFor('stateless', notification, exchange.client);
    if (bytes !== null) this.#deps.wires.tap?.client(exchange.client, this.#endpoint, 'gateway', [bytes], exchange.id);
    const sink = bytes === null ? null : this.#open();
    if (sink === null) return;
    const droppable = exchange.request.method !== LISTEN;
    if (sink.event(null, [oneLine(bytes!)], droppable) || flow === null || sink.closed) return;
    this.#waiting ??= new PausedFlows();
    this.#waiting.pause(flow, sink);
  }

  async askFor(exchange: ClientExchange, request: Message): Promise<Message> {
    this.exchange = this.#deps.pendingInput.begin(exchange, this.#deps.exchanges, this.#endpoint, null);
    return exchange.ask(request);
  }

  answer(exchange: ClientExchange, given: Outcome): void {
    const outcome = withUrlElicitations(given, exchange, this.#endpoint, this.#deps.pendingInput);
    this.#deps.patience.leave(this);
    this.#deps.exchanges.remove(exchange);
    const message = answerMessage(exchange.request, this.#endpoint, outcome);
    const parts = withId(message, exchange.request.id);
    this.#deps.wires.tap?.client(exchange.client, this.#endpoint, 'gateway', parts, exchange.id);
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

/** The HTTP status of an answer in 2026-07-28 (streamable-http §Protocol Version Header, §Server Validation). */
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
 * The way back to a stateless client that is connected to another node of the cluster. That node translates messages into
 * the client's vocabulary.
 */
class ForwardedReply implements Reply {
  readonly canAsk = true;
  readonly #deps: StatelessReplyDeps;
  readonly #endpoint: Endpoint;
  readonly #caller: Exchange;
  readonly #ended: (outcome: Outcome) => void;
  /** The exchange that gets this reply; set by the code that creates both. */
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
