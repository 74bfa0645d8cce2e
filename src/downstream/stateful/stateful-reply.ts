import type { RequestContext } from '../../http/listener/request-context.ts';
import type { Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { isPassedOn, type Outcome } from '../../model/outcome.ts';
import type { UnansweredRequest } from '../../model/stream-copies.ts';
import { request as compose } from '../../protocol/compose.ts';
import { decodeString, type Entry, entries } from '../../protocol/fields.ts';
import { type Change, editObject } from '../../protocol/splice.ts';
import type { ClientTransportDeps } from '../client-transport-deps.ts';
import { retryAfter, sendLastParts, sendParts } from '../endpoints/send.ts';
import { answerParts } from '../session/answer-parts.ts';
import { abandonAsks, askClient, notificationTo } from '../session/asking.ts';
import type { ClientExchange, Reply } from '../session/client-exchange.ts';
import type { ClientSession, ResumableReply } from '../session/client-session.ts';
import type { DelayQueue, DelayQueueItem } from '../session/delay-queue.ts';
import { LoggedStream } from '../session/logged-stream.ts';

export interface StatefulDeps extends ClientTransportDeps {
  /** Opens SSE for answers that take longer than clients and proxies wait for a response head. */
  readonly patience: DelayQueue;
}

/**
 * The answer to one POST of a session: a single request, or a batch of them (2025-03-26).
 *
 * It is plain JSON if nothing is sent before the outcome and the outcome arrives soon; then nothing is logged. A
 * notification, a request to the client, or a long wait makes it an SSE stream of its own. Every message of that stream is
 * logged, because a lost connection is no cancellation (2025-11-25 transports): the call continues, and the client may
 * resume the stream.
 */
export class StatefulReply implements Reply, ResumableReply, DelayQueueItem {
  dueAt = 0;
  earlier: DelayQueueItem | null = null;
  later: DelayQueueItem | null = null;
  readonly #deps: StatefulDeps;
  readonly #session: ClientSession;
  readonly #takesStream: boolean;
  /** Null once the head was written as SSE, the answer was sent, or the client is gone. */
  #context: RequestContext | null;
  #stream: LoggedStream | null = null;
  #outstanding: number;
  /** Answers of a batch so far; null for a single request. */
  readonly #gathered: Buffer[] | null;

  /** `outstanding` is the number of requests in a batch; 0 for a POST of a single request. */
  constructor(
    deps: StatefulDeps,
    session: ClientSession,
    context: RequestContext,
    takesStream: boolean,
    outstanding: number,
  ) {
    this.#deps = deps;
    this.#session = session;
    this.#context = context;
    this.#takesStream = takesStream;
    this.#outstanding = outstanding || 1;
    this.#gathered = outstanding > 0 ? [] : null;
    if (takesStream) deps.patience.join(this);
    context.onDisconnect(() => this.#disconnected());
  }

  /** A client that is gone before it got an event id cannot reconnect to be asked. */
  get canAsk(): boolean {
    return this.#stream !== null || (this.#takesStream && this.#context !== null);
  }

  get headers(): RequestContext['headers'] | undefined {
    return this.#context?.headers;
  }

  get isDisconnected(): boolean {
    return this.#stream === null ? this.#context === null : !this.#stream.open;
  }

  get stream(): LoggedStream | null {
    return this.#stream;
  }

  onDue(): void {
    this.#open();
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    const bytes = notificationTo(this.#session, exchange, notification, this.#deps.wires);
    if (bytes !== null) this.#open()?.send(bytes, true, flow);
  }

  askFor(exchange: ClientExchange, request: Message, likely: boolean): Promise<Message> {
    const stream = this.#open();
    if (stream === null) return Promise.reject(new GatewayError('MISSING_CAPABILITY', 'the client is gone'));
    const owner = { exchange, likely };
    return askClient(this.#session, owner, request, this.#deps, (message) => stream.send(message));
  }

  answer(exchange: ClientExchange, outcome: Outcome): void {
    this.#leave(exchange);
    const { client, endpoint } = this.#session;
    const parts = answerParts(exchange.request, endpoint, outcome);
    this.#deps.wires.tap?.client(client, endpoint, 'gateway', parts, exchange.id);
    if (this.#stream !== null) {
      const { id, method } = exchange.request;
      this.#stream.send(parts.length === 1 ? parts[0]! : Buffer.concat(parts), false, null, { id, method });
      if (this.#outstanding === 0) this.#end();
    } else if (this.#gathered !== null) {
      this.#gathered.push(Buffer.concat(parts));
      if (this.#outstanding === 0) this.#sendGathered(this.#gathered);
    } else this.#sendJson(parts, isPassedOn(exchange.request, outcome), retryAfter(outcome));
  }

  /** The receiver of a cancellation sends no answer (2025-11-25 cancellation): the response ends without a message. */
  cancelled(exchange: ClientExchange): void {
    this.#leave(exchange);
    if (this.#outstanding > 0) return;
    if (this.#stream !== null) this.#end();
    else if (this.#gathered !== null && this.#gathered.length > 0) this.#sendGathered(this.#gathered);
    else if (this.#context !== null) {
      this.#deps.patience.leave(this);
      const context = this.#context;
      this.#context = null;
      context.openSse().end();
    }
  }

  /** Ends the stream; later messages are dropped. */
  hangUp(): void {
    this.#stream?.end();
  }

  disconnect(): void {
    this.#stream?.disconnect();
  }

  /** The connection of the POST was closed before its answer. */
  #disconnected(): void {
    this.#deps.patience.leave(this);
    this.#context = null;
  }

  #leave(exchange: ClientExchange): void {
    this.#outstanding--;
    this.#session.exchanges.remove(exchange);
    for (const cancellation of abandonAsks(this.#session, exchange)) this.#stream?.send(cancellation);
  }

  /** The reply as a stream; null if the client takes none, or is gone and cannot resume. */
  #open(): LoggedStream | null {
    if (this.#stream !== null || this.#context === null || !this.#takesStream) return this.#stream;
    this.#deps.patience.leave(this);
    const { id: sessionId, client } = this.#session;
    const name = this.#session.nextStream(this.#deps.prefix, 'p');
    const { events, copies } = this.#deps;
    const about = { name, sessionId, principal: client.principal.id, unanswered: () => this.#pendingRequests() };
    const stream = new LoggedStream(sessionId, name, events, copies?.begin(about) ?? null);
    stream.connect(this.#context.openSse());
    this.#context = null;
    this.#stream = stream;
    this.#session.replies ??= new Map();
    this.#session.replies.set(stream.name, this);
    stream.begin(client.revision);
    for (const answer of this.#gathered ?? []) stream.send(answer);
    return stream;
  }

  /** The requests that are not answered yet. */
  #pendingRequests(): readonly UnansweredRequest[] {
    const open = this.#session.exchanges.all().filter(({ reply }) => reply === this);
    return open.map(({ request }) => pendingRequestOf(request));
  }

  #end(): void {
    this.#session.replies?.delete(this.#stream!.name);
    this.#stream!.end();
  }

  #sendGathered(gathered: readonly Buffer[]): void {
    const parts = [OPEN, ...gathered.flatMap((answer, i) => (i === 0 ? [answer] : [COMMA, answer])), CLOSE];
    this.#sendJson(parts, false);
  }

  #sendJson(parts: readonly Buffer[], passedOn: boolean, headers?: readonly string[]): void {
    this.#deps.patience.leave(this);
    const context = this.#context;
    this.#context = null;
    if (context === null) return;
    if (passedOn) sendLastParts(context, 200, parts);
    else sendParts(context, 200, parts, headers);
  }
}

/** Longest request that is stored whole with each part of its stream, and longest parameter stored of a longer request. */
const MAX_REQUEST_BYTES = 4 * 1024;
const MAX_PARAM_BYTES = 2 * 1024;
const BRIEF = new WeakMap<Message, UnansweredRequest>();

/** The request as other nodes need it to find its answer. They never send it, so long arguments are left out. */
function pendingRequestOf(request: Message): UnansweredRequest {
  const { id, method, bytes, era } = request;
  if (bytes.length <= MAX_REQUEST_BYTES) return { id, method, request: bytes.toString() };
  let pending = BRIEF.get(request);
  if (pending === undefined) {
    const brief = compose(method, id, withoutLong(request), era).bytes;
    pending = brief.length > MAX_REQUEST_BYTES ? { id, method } : { id, method, request: brief.toString() };
    BRIEF.set(request, pending);
  }
  return pending;
}

function withoutLong({ bytes, bodyStart: start, bodyEnd: end }: Message): Buffer | null {
  if (start < 0) return null;
  const isLong = ({ valueStart, valueEnd }: Entry) => valueEnd - valueStart > MAX_PARAM_BYTES;
  const long = entries(bytes, start, end).filter(isLong);
  const edits = Array.from(long, ({ keyStart, keyEnd }): Change => [decodeString(bytes, keyStart, keyEnd) ?? '', null]);
  return editObject(bytes, { start, end }, edits);
}

const OPEN = Buffer.from('[');
const COMMA = Buffer.from(',');
const CLOSE = Buffer.from(']');
