import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Exchange, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import type { Random } from '../../model/random.ts';
import type { TappedConnection, Wires } from '../../model/wire-tap.ts';
import { bodyField, relatedTask, subscriptionId } from '../../protocol/body.ts';
import { errorAnswer, PING, result } from '../../protocol/compose.ts';
import type { Range } from '../../protocol/fields.ts';
import { LISTEN, listsChangedBy } from '../../protocol/methods.ts';
import { isBatch, isScanFailure, scanBatch, scanMessage } from '../../protocol/scan.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { endSpanWithAnswer, traceOf, withTrace } from '../../protocol/trace-context.ts';
import type { Histogram, Metric } from '../../telemetry/metrics.ts';
import type { Tracer } from '../../telemetry/tracing.ts';
import { restoredAnswer } from '../calls/outgoing-request.ts';
import type { PendingById, PendingRequest, PendingRequests } from '../calls/pending.ts';
import { matchRequestId, parseRequestId } from '../calls/pending.ts';
import { ServerRequests } from '../calls/server-requests.ts';
import { MAY_HAVE_RUN } from '../transport/http-refusal.ts';
import { isText } from '../transport/in-flight.ts';
import type { ClosedReason } from '../transport/transport.ts';
import { Attribution } from './attribution.ts';
import type { ConnectionUse } from './connection-use.ts';
import { isExclusive, isOneClient, type Tenancy } from './session-key.ts';

/** Receives from a connection (`C`) what belongs to no request in flight. Handlers neither block nor throw. */
export interface ConnectionOwner<C> {
  /** The connection ended by itself. Its requests in flight were reported before. */
  closed(connection: C, reason: ClosedReason): void;
  /** A notification that belongs to no call in flight. */
  notified(connection: C, message: Message): void;
  /** A list or a resource of the server has changed, whichever client is notified. */
  outdated(connection: C, message: Message): void;
  /** One of the server's lists has changed. */
  listChanged(connection: C, message: Message): void;
  /** The server's own stream was interrupted: notifications may have been missed. */
  missed(connection: C): void;
  /** A stateful server's request outside any call. Resolves with the answer; may reject with GatewayError. */
  asked(connection: C, request: Message): Promise<Message>;
  /** Several calls in a row exceeded their deadline (F05). */
  unresponsive(connection: C): void;
  /** The server sent a message that belongs to nothing; counted by reason: `unmatched`, `malformed`, `refused`. */
  dropped(reason: string): void;
  /** The server's definition of a tool for a kind of client, for the headers that mirror its arguments; null if unknown. */
  tool(fingerprint: string, name: string): Buffer | null;
}

/** Maximum of open requests of a server per connection. Requests per client or call are limited where the client is asked. */
const MAX_ASKS = 4_096;
/** Maximum of requests that wait until the connection has an owner. */
const MAX_HELD = 64;
const MAX_HELD_BYTES = 1024 * 1024;
/** How long a server that cancelled a subscription has to send the answer that ends it gracefully. */
const GRACEFUL_END_MS = 1_000;
/** Maximum of tasks per connection whose progress is forwarded. */
const MAX_TASK_TOKENS = 256;
/** Deadline of the ping after a cancellation; until then the connection is not idle. */
const CONFIRM_MS = 60_000;

/** The connection that the bytes arrive on. */
interface MessageSource {
  readonly transport: { readonly streamPerRequest: boolean; flow?(request: number): Flow | null };
  readonly tapped: TappedConnection;
  readonly tenancy: Tenancy;
  readonly era: Era;
  /** The handshake is done. */
  readonly ready: boolean;
  answer(parts: readonly Buffer[]): void;
  ask(message: Message, timeoutMs: number): Promise<Message>;
  lost(id: number, error: GatewayError): void;
  onTruncatedId(id: number): void;
}

/** A client's progress token that outlives the answer. */
interface TaskToken {
  readonly token: string;
  readonly wire: string;
  readonly exchange: Exchange | null;
}

/** Dependencies of a connection. */
export interface ConnectionDeps<C> {
  readonly server: string;
  /** The client whose capabilities the connection presents. */
  readonly profile: ClientProfile;
  readonly clock: Clock;
  readonly owner: ConnectionOwner<C>;
  /** The connection listens to the server's own stream only on request. */
  readonly silent?: boolean;
  /** Source of the request ids and progress tokens. */
  readonly random: Random;
  /** Whether ids must fit into 32 bits: longer ones may be why the server did not start. */
  readonly shortIds?: boolean;
  /** Absent or null: no spans are recorded. */
  readonly tracer?: Tracer | null | undefined;
  readonly wires?: Wires | undefined;
  /** Durations of sessions, in seconds, by revision, error type and server. */
  readonly durations?: Metric<Histogram>;
}

/**
 * Handles what a server sends on one connection, starting from the bytes. Answers go to their requests, by the ids that these
 * were sent with. Each other message goes to the one exchange that it belongs to (`Attribution`), to the owner of the
 * connection if it belongs to none, or is dropped.
 */
export class ServerMessages<C extends MessageSource> {
  readonly #connection: C;
  readonly #deps: ConnectionDeps<C>;
  readonly #requests: PendingRequests;
  readonly #pending: PendingById;
  readonly #use: ConnectionUse;
  readonly #serverRequests: ServerRequests;
  readonly #attribution: Attribution;
  /** Progress tokens that outlive the answer, by the gateway's id. */
  readonly #taskTokens = new Map<number, TaskToken>();
  /** Requests that wait until the connection has an owner. */
  #held: { readonly message: Message; readonly at: number }[] = [];

  constructor(connection: C, deps: ConnectionDeps<C>, requests: PendingRequests, use: ConnectionUse) {
    this.#connection = connection;
    this.#deps = deps;
    this.#requests = requests;
    this.#pending = requests.byId;
    this.#use = use;
    this.#attribution = new Attribution(connection, deps.clock, requests.byId);
    this.#serverRequests = new ServerRequests(connection, (message) => deps.owner.notified(connection, message));
  }

  get heldForMs(): number {
    const first = this.#held[0];
    return first === undefined ? 0 : Math.max(1, this.#deps.clock.now() - first.at);
  }

  /** Whether requests of the server wait for an answer or for an owner. */
  get asking(): boolean {
    return this.#serverRequests.size > 0 || this.#held.length > 0;
  }

  /** `stream`: the request on whose own stream the bytes arrived; 0 for the common channel. */
  take(bytes: Buffer, stream: number): void {
    if (isBatch(bytes)) {
      const batch = scanBatch(bytes);
      if (isScanFailure(batch)) this.#malformed(stream, batch.reason);
      // Each message gets its own copy, because the memory of a handled message may be reused.
      else for (const element of batch) this.#one(Buffer.from(element), stream);
    } else this.#one(bytes, stream);
  }

  #one(bytes: Buffer, stream: number): void {
    const message = scanMessage(bytes, this.#connection.era, 'relaxed');
    const tap = this.#deps.wires?.tap ?? null;
    if (tap !== null && !isScanFailure(message)) {
      tap.server(this.#connection.tapped, 'server', [bytes], this.#exchangeOf(message, stream));
    }
    if (isScanFailure(message)) this.#malformed(stream, message.reason);
    else if (message.kind === 'result' || message.kind === 'error') this.#answered(message, stream);
    else if (message.kind === 'request') this.#asked(message, stream);
    else {
      this.#use.notified(message);
      if (message.method === 'notifications/progress') this.#progress(message, stream);
      else if (message.method === 'notifications/cancelled') this.#cancelled(message, stream);
      else this.#notified(message, stream);
    }
  }

  /** The exchange that the ids name, for a wire recording. */
  #exchangeOf({ kind, bytes, idStart, idEnd }: Message, stream: number): Exchange | null {
    const isAnswer = (kind === 'result' || kind === 'error') && idStart >= 0;
    const id = isAnswer ? matchRequestId(this.#pending, bytes, idStart, idEnd) : stream;
    return this.#pending.get(id)?.exchange ?? null;
  }

  #answered(message: Message, stream: number): void {
    const { server, owner } = this.#deps;
    const { bytes, idStart, idEnd } = message;
    // An error without an id on a request's own stream is the answer to that request.
    const id =
      idStart < 0 ? stream : matchRequestId(this.#pending, bytes, idStart, idEnd) || this.#matchCutId(message, stream);
    const pending = stream !== 0 && stream !== id ? undefined : this.#pending.get(id);
    if (pending === undefined) {
      this.#attribution.cancelConfirmed(parseRequestId(bytes, idStart, idEnd));
      owner.dropped('unmatched');
      // After an answer with another id, the request's own stream brings no further answer.
      if (this.#pending.get(stream) === undefined) return;
      const text = `${server} answered the request with the id of another one; ${MAY_HAVE_RUN}`;
      this.#connection.lost(stream, new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
      return;
    }
    this.#requests.remove(id);
    try {
      this.#use.answered(pending, message);
      if (pending.token !== null) this.#keepProgressToken(id, pending);
      pending.answered(pending.method === LISTEN ? restoredAnswer(message, pending) : message);
    } catch (defect) {
      // The request is not in flight any more: nothing else would end its call (F42).
      pending.lost(new GatewayError('INTERNAL', 'the answer could not be passed on', { server }));
      throw defect;
    }
  }

  /**
   * The request whose id, truncated to 32 bits, is the answer's id; 0 for none. Accepted on the request's own stream, and on a
   * pipe only during the handshake; later requests get short ids.
   */
  #matchCutId({ bytes, idStart, idEnd }: Message, stream: number): number {
    const asked = stream !== 0 ? [stream] : this.#connection.ready ? [] : this.#requests.ids;
    const kept = asked.length === 0 ? 0 : Number(bytes.toString('latin1', idStart, idEnd)) >>> 0;
    const whole = kept === 0 ? undefined : asked.find((one) => Number(this.#pending.get(one)?.wire) >>> 0 === kept);
    if (whole !== undefined) this.#connection.onTruncatedId(whole);
    return whole ?? 0;
  }

  /** On a request's own stream this is an invalid answer; on a pipe it is ignored (F07). */
  #malformed(stream: number, reason: string): void {
    const { server, owner } = this.#deps;
    owner.dropped('malformed');
    if (this.#pending.get(stream) === undefined) return;
    const text = `${server} sent something that is no JSON-RPC message: ${reason}`;
    this.#connection.lost(stream, new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
  }

  /** The connection has an owner now: sends it the held requests. */
  release(): void {
    const held = this.#held;
    this.#held = [];
    // The server sent them before any call: on a connection that is not one client's they belong to no call.
    for (const { message } of held) {
      if (isOneClient(this.#connection.tenancy)) this.#asked(message, 0);
      else this.#askOwner(message);
    }
  }

  /** Whether a request of the server is open at the client of a call: further requests may belong to that call too. */
  get engaged(): boolean {
    return this.#serverRequests.engaged;
  }

  /** The call was cancelled. A pipe is read in order: a server that answers a ping has read the cancellation before it. */
  withdrawn(id: number, pending: PendingRequest, era: Era): void {
    const { transport, tenancy } = this.#connection;
    if (era === 'stateless' || pending.exchange === null || transport.streamPerRequest || isOneClient(tenancy)) return;
    this.#attribution.withdrawn(id);
    const confirm = (): void => this.#attribution.cancelConfirmed(id);
    this.#connection.ask(PING, CONFIRM_MS).then(confirm, () => {});
  }

  /** Progress of a task follows the answer that began it (utilities/tasks §Progress), under its call's token, if short. */
  #keepProgressToken(id: number, { token, wire, request, exchange }: PendingRequest): void {
    if (token === null || token.length > 1024 || request === null || bodyField(request, 'task') === null) return;
    this.#taskTokens.set(id, { token, wire, exchange: exchange?.waitsForTask === true ? exchange : null });
    if (this.#taskTokens.size > MAX_TASK_TOKENS) this.#taskTokens.delete(this.#taskTokens.keys().next().value!);
  }

  /** The attempt is lost, though its call may be retried: its input requests are cancelled. */
  lost(pending: PendingRequest): void {
    this.#serverRequests.lost(pending);
  }

  close(): void {
    this.#held = [];
    this.#serverRequests.close();
  }

  #notified(message: Message, stream: number): void {
    const { owner } = this.#deps;
    const announcesList = listsChangedBy(message.method).length > 0;
    if (announcesList || message.method === 'notifications/resources/updated') {
      owner.outdated(this.#connection, message);
    }
    if (announcesList) owner.listChanged(this.#connection, message);
    const tagged = message.era === 'stateless' ? subscriptionId(message) : null;
    if (tagged !== null) {
      const listen = this.#pending.get(matchRequestId(this.#pending, message.bytes, tagged.start, tagged.end));
      if (listen?.method === LISTEN) {
        listen.onNotification?.(message);
        emitFor(listen, message, tagged, listen.request?.id ?? '');
      } else owner.dropped('unmatched');
      return;
    }
    const pending = this.#attribution.of(message, stream);
    if (pending !== null) pending.exchange?.emit(message, this.#flow(stream));
    else if (!announcesList) owner.notified(this.#connection, message);
  }

  /** The request's own stream, which carries no other messages. */
  #flow(stream: number): Flow | null {
    return stream === 0 ? null : (this.#connection.transport.flow?.(stream) ?? null);
  }

  #progress(message: Message, stream: number): void {
    const { owner } = this.#deps;
    const range = bodyField(message, 'progressToken');
    const id = range === null ? 0 : parseRequestId(message.bytes, range.start, range.end);
    const isIts = (one: { readonly wire: string } | undefined): boolean =>
      range !== null && one !== undefined && isText(message.bytes, range.start, range.end, one.wire);
    const pending = this.#pending.get(id);
    const taskToken = this.#taskTokens.get(id);
    // A call whose client sent no token has none on the wire either: the server invented this one.
    if (isIts(pending) && pending!.token !== null) {
      pending!.progressed?.();
      emitFor(pending!, message, range!, pending!.token!, this.#flow(stream));
    } else if (isIts(taskToken)) {
      const restored = replaced(message, range!, taskToken!.token);
      if (taskToken!.exchange === null) owner.notified(this.#connection, restored);
      else taskToken!.exchange.emit(restored);
    } else owner.dropped('unmatched');
  }

  #cancelled(message: Message, stream: number): void {
    const range = bodyField(message, 'requestId');
    const id = range === null ? 0 : matchRequestId(this.#pending, message.bytes, range.start, range.end);
    const listen = this.#pending.get(id);
    const asked =
      range === null ? undefined : this.#serverRequests.get(message.bytes.toString('latin1', range.start, range.end));
    if (range !== null && message.era === 'stateless' && listen?.method === LISTEN) {
      emitFor(listen, message, range, listen.request?.id ?? '');
      const error = new GatewayError('UNKNOWN', `${this.#deps.server} ended the subscription`);
      this.#deps.clock.after(GRACEFUL_END_MS, () => this.#connection.lost(id, error));
    } else if (asked === undefined) {
      this.#deps.owner.dropped('unmatched');
    } else {
      // The request may have outlived the call that carried it.
      const live = asked !== null && this.#pending.values().includes(asked) ? asked : this.#pending.get(stream);
      const exchange = live?.exchange ?? null;
      if (exchange !== null) exchange.emit(message);
      else this.#deps.owner.notified(this.#connection, message);
    }
  }

  #asked(message: Message, stream: number): void {
    if (message.method === 'ping') this.#connection.answer([result(message.id, '{}', message.era).bytes]);
    else if (message.era === 'stateless') this.#refuse(message, 'servers send no requests in this revision');
    else if (this.#serverRequests.size >= MAX_ASKS || this.#held.length >= MAX_HELD)
      this.#refuse(message, 'too many requests at once');
    else if (this.#serverRequests.has(message.id)) this.#deps.owner.dropped('unmatched');
    else this.#broker(message, stream);
  }

  /** Finds the one client that may be asked; the request never reaches another client. */
  #broker(message: Message, stream: number): void {
    const pending = this.#attribution.callForRequest(message, stream);
    if (pending === 'unknown') {
      this.#refuse(message, 'several calls are in flight, and nothing says which of them asks');
    } else if (pending !== null && pending.exchange !== null) {
      // A pipe does not show which call, if any, a request belongs to.
      const likely = stream === 0 && isOneClient(this.#connection.tenancy) && relatedTask(message) === null;
      const { exchange } = pending;
      this.#put(message, pending, (asked) => exchange.ask(asked, likely));
    } else if (isExclusive(this.#connection.tenancy)) {
      this.#askOwner(message);
    } else if (this.#connection.tenancy.kind === 'spare') {
      const bytes = this.#held.reduce((sum, held) => sum + held.message.bytes.length, message.bytes.length);
      if (bytes > MAX_HELD_BYTES)
        this.#refuse(message, 'no client is there yet, and the requests are too long to wait');
      else this.#held.push({ message, at: this.#deps.clock.now() });
    } else {
      this.#refuse(message, 'this connection belongs to no single client that could be asked');
    }
  }

  #askOwner(message: Message): void {
    this.#put(message, null, (asked) => this.#deps.owner.asked(this.#connection, asked));
  }

  /** Sends the request, in a span of kind `server` under the call's span, and answers the server with the result. */
  #put(message: Message, pending: PendingRequest | null, ask: (asked: Message) => Promise<Message>): void {
    const { server, tracer } = this.#deps;
    const parent = tracer == null ? null : (traceOf(message) ?? pending?.trace ?? null);
    // Without a span of its call there is none here.
    const span = pending !== null && parent === null ? null : (tracer?.begin('server', parent) ?? null);
    span?.describe(message.method, { 'mcp.method.name': message.method, 'trunkline.server': server });
    const given = span === null ? ask(message) : endSpanWithAnswer(span, ask(withTrace(message, span.traceparent)));
    this.#serverRequests.answerWith(message, pending, given);
  }

  #refuse(message: Message, text: string): void {
    this.#deps.owner.dropped('refused');
    // 2026-07-28 over HTTP has no way to answer a request of the server.
    if (message.era === 'stateless' && this.#connection.transport.streamPerRequest) return;
    this.#connection.answer([errorAnswer(message.id, CATALOGUE.METHOD_NOT_FOUND.rpc, text, null, message.era).bytes]);
  }
}

/** Emits a message in which the server names an id of the gateway, with the client's id in its place. */
function emitFor(
  pending: PendingRequest,
  message: Message,
  range: Range,
  lexeme: string,
  flow: Flow | null = null,
): void {
  pending.exchange?.emit(replaced(message, range, lexeme), flow);
}

function replaced(message: Message, range: Range, lexeme: string): Message {
  return spliceMessage(message, [{ start: range.start, end: range.end, insert: Buffer.from(lexeme, 'latin1') }]);
}
