import type { Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { oneLine } from '../../protocol/splice.ts';
import type { ClientTransportDeps } from '../client-transport-deps.ts';
import { initializeAnswer } from '../endpoints/handshake-answer.ts';
import { answerParts } from './answer-parts.ts';
import { abandonAsks, askClient, notificationTo } from './asking.ts';
import { ClientExchange, type Reply } from './client-exchange.ts';
import type { ClientSession, SessionChannel } from './client-session.ts';
import { readInitialize } from './initialize.ts';
import { settle } from './session-intake.ts';

/** One ordered wire to a client that carries all its messages: the SSE stream of 2024-11-05, or a pipe. */
export interface SharedWire {
  readonly open: boolean;
  /**
   * Writes one message without line breaks. A `droppable` one may be dropped if the client does not keep up; `flow`, which
   * the message arrived on, is paused until the client does.
   */
  write(message: Buffer, droppable?: boolean, flow?: Flow | null): void;
  end(): void;
}

/**
 * The session's channel and the reply of all its exchanges, for clients with a single wire. Their sessions begin with the
 * wire, and get the client's declaration from its `initialize`.
 */
export class SharedChannel implements SessionChannel, Reply {
  readonly #session: ClientSession;
  readonly #wire: SharedWire;
  readonly #deps: ClientTransportDeps;
  /** The client has its answer to `initialize`. */
  #initializeAnswered = false;

  constructor(session: ClientSession, wire: SharedWire, deps: ClientTransportDeps) {
    this.#session = session;
    this.#wire = wire;
    this.#deps = deps;
  }

  /** Takes a message of the client: 'full' if it is one request too many, 'unknown' if it is an answer to nothing. */
  take(message: Message): 'taken' | 'full' | 'unknown' {
    const { intake } = this.#deps;
    const session = this.#session;
    switch (message.kind) {
      case 'request':
        if (intake.full(session)) return 'full';
        if (message.method === 'initialize' && !session.initializeReceived) this.#initialize(message);
        else intake.request(session, message, this);
        return 'taken';
      case 'notification':
        intake.notification(session, message);
        return 'taken';
      default:
        return intake.answer(session, message) === 'unknown' ? 'unknown' : 'taken';
    }
  }

  get open(): boolean {
    return this.#wire.open;
  }

  get canAsk(): boolean {
    return this.#wire.open;
  }

  /** Dropped before the answer to `initialize`: the client has read no list yet that could have changed. */
  deliver(notification: Message, server?: string): void {
    if (this.#initializeAnswered) this.#sendNotification(null, notification, null, server);
  }

  sendCancellation(cancellation: Buffer): void {
    this.#wire.write(oneLine(cancellation));
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    this.#sendNotification(exchange, notification, flow);
  }

  ask(request: Message, server?: string): Promise<Message> {
    return this.#ask(null, request, server);
  }

  askFor(exchange: ClientExchange, request: Message, likely: boolean): Promise<Message> {
    return this.#ask({ exchange, likely }, request);
  }

  answer(exchange: ClientExchange, outcome: Outcome): void {
    this.#leave(exchange);
    const { client, endpoint } = this.#session;
    const parts = answerParts(exchange.request, endpoint, outcome);
    this.#deps.wires.tap?.client(client, endpoint, 'gateway', parts, exchange.id);
    this.#wire.write(oneLine(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
    this.#initializeAnswered ||= exchange.request.method === 'initialize' && this.#session.initializeReceived;
  }

  /** Answers a message that could not be read as a request. `id` as written. */
  refuse(id: string, code: number, text: string): void {
    this.#wire.write(oneLine(errorAnswer(id, code, text, null, 'stateful').bytes));
  }

  cancelled(exchange: ClientExchange): void {
    this.#leave(exchange);
  }

  close(): void {
    this.#wire.end();
  }

  #initialize(request: Message): void {
    const session = this.#session;
    const introduction = readInitialize(request);
    if (!(introduction instanceof GatewayError)) {
      session.applyInitialize(introduction, this.#deps.fingerprints.of(introduction.capabilities));
    }
    const exchange = new ClientExchange(request, session.client, this);
    this.#deps.wires.tap?.client(session.client, session.endpoint, 'client', [request.bytes], exchange.id);
    session.exchanges.add(exchange);
    if (introduction instanceof GatewayError) exchange.finish(failure(introduction));
    else void settle(exchange, this.#handshake(request));
  }

  async #handshake(request: Message): Promise<Outcome> {
    const { endpoint, client } = this.#session;
    const message = await initializeAnswer(this.#deps.core, request, endpoint, client);
    // A client may retry on the same wire if the server was not available.
    if (message.kind === 'error') this.#session.initializeReceived = false;
    return answer(message);
  }

  #ask(owner: Parameters<typeof askClient>[1], request: Message, server?: string): Promise<Message> {
    const send = (message: Buffer): void => this.#wire.write(oneLine(message));
    return askClient(this.#session, owner, request, this.#deps, send, server);
  }

  #sendNotification(
    owner: ClientExchange | null,
    notification: Message,
    flow: Flow | null = null,
    server?: string,
  ): void {
    const bytes = notificationTo(this.#session, owner, notification, this.#deps.wires, server);
    if (bytes !== null) this.#wire.write(oneLine(bytes), true, flow);
  }

  #leave(exchange: ClientExchange): void {
    this.#session.exchanges.remove(exchange);
    for (const cancellation of abandonAsks(this.#session, exchange)) this.#wire.write(cancellation);
  }
}
