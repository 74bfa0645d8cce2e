import type { Flow } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { oneLine } from '../../protocol/splice.ts';
import { answerParts } from './answer-parts.ts';
import { type AskDeps, abandonAsks, askClient, notificationTo } from './asking.ts';
import type { ClientExchange, Reply } from './client-exchange.ts';
import type { ClientSession, SessionChannel } from './client-session.ts';
import type { AskOwner } from './pending-asks.ts';

/** One ordered wire to a client that carries everything: the SSE stream of 2024-11-05, or a pipe. */
export interface SharedWire {
  readonly open: boolean;
  /**
   * One message, without line breaks. A `droppable` one may be lost to a client that does not keep up; `flow`, what it
   * came on, waits until the client does.
   */
  write(message: Buffer, droppable?: boolean, flow?: Flow | null): void;
  end(): void;
}

/** Both the session's channel and the reply of all its exchanges, for clients that have one wire for everything. */
export class SharedChannel implements SessionChannel, Reply {
  readonly #session: ClientSession;
  readonly #wire: SharedWire;
  readonly #deps: AskDeps;
  /** The client has its answer to `initialize`. */
  #introduced = false;

  constructor(session: ClientSession, wire: SharedWire, deps: AskDeps) {
    this.#session = session;
    this.#wire = wire;
    this.#deps = deps;
  }

  get open(): boolean {
    return this.#wire.open;
  }

  get canAsk(): boolean {
    return this.#wire.open;
  }

  /** Before its answer to `initialize` a client is sent nothing: it has read no list yet that could have changed. */
  deliver(notification: Message, server?: string): void {
    if (this.#introduced) this.#tell(null, notification, null, server);
  }

  calledOff(cancellation: Buffer): void {
    this.#wire.write(oneLine(cancellation));
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    this.#tell(exchange, notification, flow);
  }

  ask(request: Message, server?: string): Promise<Message> {
    return this.#ask(null, request, server);
  }

  askFor(exchange: ClientExchange, request: Message, likely: boolean): Promise<Message> {
    return this.#ask({ exchange, likely }, request);
  }

  answer(exchange: ClientExchange, outcome: Outcome): void {
    this.#leave(exchange);
    const parts = answerParts(exchange.request, this.#session.endpoint, outcome);
    this.#wire.write(oneLine(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
    this.#introduced ||= exchange.request.method === 'initialize' && this.#session.introduced;
  }

  /** Answers a request that is no exchange, because it could not be read as one. `id` as written. */
  refuse(id: string, code: number, text: string): void {
    this.#wire.write(oneLine(errorAnswer(id, code, text, null, 'stateful').bytes));
  }

  cancelled(exchange: ClientExchange): void {
    this.#leave(exchange);
  }

  close(): void {
    this.#wire.end();
  }

  #ask(owner: AskOwner | null, request: Message, server?: string): Promise<Message> {
    const send = (message: Buffer): void => this.#wire.write(oneLine(message));
    return askClient(this.#session, owner, request, this.#deps, send, server);
  }

  #tell(owner: ClientExchange | null, notification: Message, flow: Flow | null = null, server?: string): void {
    const bytes = notificationTo(this.#session, owner, notification, server);
    if (bytes !== null) this.#wire.write(oneLine(bytes), true, flow);
  }

  #leave(exchange: ClientExchange): void {
    this.#session.exchanges.remove(exchange);
    for (const cancellation of abandonAsks(this.#session, exchange)) this.#wire.write(cancellation);
  }
}
