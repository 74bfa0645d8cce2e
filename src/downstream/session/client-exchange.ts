import type { IncomingHttpHeaders } from 'node:http';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';

/**
 * The way back to the client for one exchange: an HTTP response, an SSE stream shared by many exchanges, or a pipe. No
 * method blocks or throws, even if the client is gone.
 */
export interface Reply {
  /** Whether requests of the gateway and the client's answers to them can pass this way. */
  readonly canAsk: boolean;
  /** No client is connected to get the answer; it may reconnect for it. */
  readonly isDisconnected?: boolean;
  /** Headers of the HTTP request until it is answered. */
  readonly headers?: Readonly<IncomingHttpHeaders> | undefined;
  /** Sends a notification of the exchange, or the cancellation of an ask. `flow` as in `Exchange.emit`. */
  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void;
  /** Sends a request of the gateway, under an id of the gateway. */
  askFor(exchange: ClientExchange, request: Message, likely: boolean): Promise<Message>;
  /** The exchange has ended with this outcome. Called exactly once. */
  answer(exchange: ClientExchange, outcome: Outcome): void;
  /** The client cancelled the exchange and expects no answer. Called instead of `answer`. */
  cancelled(exchange: ClientExchange): void;
}

let count = 0;

/**
 * One request of a client in flight. A plain object with a few fields, because every call has one; its own links make it a
 * member of its client's list of exchanges.
 */
export class ClientExchange implements Exchange {
  /** Replaced when a call is run again: by the request without the members of its round. */
  request: Message;
  readonly client: ClientProfile;
  /** Replaced by a `PendingInputCall` when the server asks a stateless client for input. */
  reply: Reply;
  readonly #headers: Readonly<IncomingHttpHeaders> | null;
  /** Undefined until first read. */
  #params: Readonly<Record<string, string>> | null | undefined;
  readonly #number = ++count;
  target: Exchange['target'] = undefined;
  sentAt: number | undefined = undefined;
  // Fields that few calls set; declared at the start so that all exchanges have one hidden class.
  searchStartedAt: number | undefined = undefined;
  servedBy: string | undefined = undefined;
  attempts: Exchange['attempts'] = undefined;
  trace: string | undefined = undefined;
  /** Set by `StatelessIntake`. */
  sealsInput = false;
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  /** Links of the `ExchangeList` that it is in. */
  previous: ClientExchange | null = null;
  next: ClientExchange | null = null;
  #over = false;

  constructor(
    request: Message,
    client: ClientProfile,
    reply: Reply,
    headers: Readonly<IncomingHttpHeaders> | null = null,
  ) {
    this.request = request;
    this.client = client;
    this.reply = reply;
    this.#headers = headers;
  }

  /** Another exchange of the same request, which serves the client in place of this one. */
  attachedRequest(): ClientExchange {
    return new ClientExchange(this.request, this.client, this.reply, this.#headers);
  }

  /** With `traceparent`, the only headers that `Exchange` exposes; never credentials. */
  get paramHeaders(): Readonly<Record<string, string>> | null {
    if (this.#params === undefined) this.#params = this.#headers === null ? null : paramHeadersOf(this.#headers);
    return this.#params;
  }

  get traceHeader(): string | null {
    const value = (this.#headers ?? this.reply.headers)?.['traceparent'];
    return typeof value === 'string' ? value : null;
  }

  get id(): string {
    return this.#number.toString(36);
  }

  get takesInputRequired(): boolean {
    return this.client.sessionId === null;
  }

  emit(notification: Message, flow: Flow | null = null): void {
    if (!this.#over && this.cancelled === null) this.reply.notify(this, notification, flow);
  }

  ask(request: Message, likely = false): Promise<Message> {
    if (this.#over || this.cancelled !== null) {
      return Promise.reject(new GatewayError('CANCELLED', 'the call this request belongs to is over'));
    }
    if (!this.reply.canAsk) {
      return Promise.reject(new GatewayError('MISSING_CAPABILITY', `the client cannot be asked ${request.method}`));
    }
    return this.reply.askFor(this, request, likely);
  }

  /** The client cancels the request. Notifies the code that works on the call, once. */
  cancel(reason: string): void {
    if (this.#over || this.cancelled !== null) return;
    this.cancelled = reason;
    const { onCancel } = this;
    this.onCancel = null;
    onCancel?.(reason);
  }

  /** Ends the exchange with an outcome of the gateway; the code that works on it is notified to stop. */
  conclude(outcome: Outcome, reason: string): void {
    const { onCancel } = this;
    this.finish(outcome);
    // Code that has only been waiting so far reads this and starts nothing.
    this.cancelled ??= reason;
    onCancel?.(reason);
  }

  /** Ends the exchange; later messages are dropped. */
  finish(outcome: Outcome): void {
    if (this.#over) return;
    this.#over = true;
    this.onCancel = null;
    if (this.cancelled === null) this.reply.answer(this, outcome);
    else this.reply.cancelled(this);
  }
}

const NONE: Readonly<Record<string, string>> = Object.freeze(Object.create(null));

/** The `Mcp-Param-*` headers, by lower-case name. Nearly all requests have none. */
export function paramHeadersOf(headers: Readonly<IncomingHttpHeaders>): Readonly<Record<string, string>> {
  let found: Record<string, string> | null = null;
  for (const name in headers) {
    if (!name.startsWith('mcp-param-')) continue;
    const value = headers[name];
    if (typeof value !== 'string') continue;
    found ??= Object.create(null) as Record<string, string>;
    found[name] = value;
  }
  return found ?? NONE;
}

/**
 * The exchanges of one client in flight, linked through the exchanges themselves: joining and leaving allocate nothing, and
 * a client that uses one id for several concurrent calls loses none of them.
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

  /** Call it once for an exchange that was added. */
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

  /** A copy, so that members may leave during iteration. */
  all(): ClientExchange[] {
    const members: ClientExchange[] = [];
    for (let exchange = this.#first; exchange !== null; exchange = exchange.next) members.push(exchange);
    return members;
  }

  /** Cancels all of them; they leave the list when their outcomes arrive. */
  cancelAll(reason: string): void {
    if (this.#size === 0) return;
    for (const exchange of this.all()) exchange.cancel(reason);
  }
}
