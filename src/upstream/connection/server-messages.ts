import type { Clock } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Exchange, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import { bodyField, relatedTask, subscriptionId } from '../../protocol/body.ts';
import { errorAnswer, request, result } from '../../protocol/compose.ts';
import type { Range } from '../../protocol/fields.ts';
import { LISTEN, listsChangedBy } from '../../protocol/methods.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import type { PendingById, PendingRequest } from '../calls/pending.ts';
import { isLexeme, namedRequest, ownId } from '../calls/request-ids.ts';
import { ServerAsks } from '../calls/server-asks.ts';
import type { ClosedReason } from '../transport/transport.ts';
import { Attribution } from './attribution.ts';
import { isExclusive, isOneClient, type Tenancy } from './session-key.ts';

/** Receives from a connection (`C`) what concerns no request in flight. Handlers neither block nor throw. */
export interface ConnectionOwner<C> {
  /** It ended by itself. The requests in flight were reported before. */
  closed(connection: C, reason: ClosedReason): void;
  /** A notification that belongs to no call in flight. */
  notified(connection: C, message: Message): void;
  /** A list or a resource of the server is not what it was, whichever client is notified. */
  outdated(connection: C, message: Message): void;
  /** One of the server's lists has changed. */
  listChanged(connection: C, message: Message): void;
  /** The server's own stream was down: what it would have sent is unknown. */
  missed(connection: C): void;
  /** A stateful server's own request outside any call. Resolves with the answer; may reject with GatewayError. */
  asked(connection: C, request: Message): Promise<Message>;
  /** Several calls in a row ran into their deadline (F05). */
  unresponsive(connection: C): void;
  /** The server sent what belongs to nothing; counted by reason: `unmatched`, `malformed`, `unasked`, `refused`. */
  dropped(reason: string): void;
  /** The server's definition of a tool, for the headers that mirror its arguments; null while it is not known. */
  tool(connection: C, name: string): Buffer | null;
}

/** Owns the connections of one server, from before they are negotiated. */
export interface ConnectionsOwner<C> extends ConnectionOwner<C> {
  /** It was given up before it was negotiated. */
  abandoned(connection: C): void;
  /** The nodes were apart, and another one's session has replaced this one's: it is of no use any more. */
  superseded(connection: C): void;
  /** What the server kept for the session of such a connection is gone. */
  stateLost(of: { readonly tenancy: Tenancy }): void;
}

/**
 * Requests of one server that may wait for an answer at once on one connection, which many stateless clients may share;
 * more are refused. What one client or call may be asked at once is bounded where it is asked.
 */
const MAX_ASKS = 4_096;
/** Requests that may wait for the connection to get an owner. */
const MAX_HELD = 64;
/** How long a server that tore a subscription down gets for the answer that ends it gracefully. */
const GRACEFUL_END_MS = 1_000;
/** Tasks of one connection whose progress is followed. */
const MAX_LASTING = 256;
const PING = request('ping', '0', null, 'stateful');

/** What is needed of the connection the messages came on. */
interface MessageSource {
  readonly transport: { readonly streamPerRequest: boolean; flow?(request: number): Flow | null };
  readonly tenancy: Tenancy;
  answer(parts: readonly Buffer[]): void;
  post(message: Message): { readonly pending: { readonly answer: Promise<Message> } };
  lost(id: number, error: GatewayError): void;
}

/** A progress token of a client that outlives the answer. */
interface Lasting {
  readonly token: string;
  readonly wire: string;
  readonly exchange: Exchange | null;
}

interface ServerMessagesDeps<C> {
  readonly server: string;
  readonly clock: Clock;
  readonly owner: ConnectionOwner<C>;
}

/**
 * What a server sends on its own: each message is given to the one exchange it belongs to (`Attribution`), to the
 * owner of the connection where it belongs to none, or dropped.
 */
export class ServerMessages<C extends MessageSource> {
  readonly #connection: C;
  readonly #deps: ServerMessagesDeps<C>;
  readonly #pending: PendingById;
  readonly #asks: ServerAsks<C>;
  readonly #attribution: Attribution;
  /** Progress tokens of clients that outlive the answer, by our id. */
  readonly #lasting = new Map<number, Lasting>();
  /** Requests that wait for the connection to get an owner. */
  #held: { readonly message: Message; readonly at: number }[] = [];

  constructor(connection: C, deps: ServerMessagesDeps<C>, pending: PendingById) {
    this.#connection = connection;
    this.#deps = deps;
    this.#pending = pending;
    this.#attribution = new Attribution(connection, deps.clock, pending);
    this.#asks = new ServerAsks(connection, deps.owner);
  }

  get holding(): boolean {
    return this.#held.length > 0;
  }

  get heldForMs(): number {
    const first = this.#held[0];
    return first === undefined ? 0 : Math.max(1, this.#deps.clock.now() - first.at);
  }

  /** Requests of the server's wait for an answer, or for a client to be asked. */
  get asking(): boolean {
    return this.#asks.size > 0 || this.#held.length > 0;
  }

  take(message: Message, stream: number): void {
    if (message.kind === 'request') this.#asked(message, stream);
    else this.#notified(message, stream);
  }

  /** The connection has an owner now: asks it what was held. */
  release(): void {
    const held = this.#held;
    this.#held = [];
    // Asked before there was any call: where the pipe is not one client's, it concerns none.
    for (const { message } of held) {
      if (isOneClient(this.#connection.tenancy)) this.#asked(message, 0);
      else this.#asks.answerWith(message, null, this.#deps.owner.asked(this.#connection, message));
    }
  }

  /**
   * A question of some call's is before its client: whatever else the server asks now would be as well its.
   */
  get engaged(): boolean {
    return this.#asks.engaged;
  }

  /**
   * The call was taken back, and the server notified. A pipe is read in order: what answers a ping has read the
   * cancellation before it.
   */
  withdrawn(id: number, pending: PendingRequest, era: Era): void {
    const { transport, tenancy } = this.#connection;
    if (era === 'stateless' || pending.exchange === null || transport.streamPerRequest || isOneClient(tenancy)) return;
    this.#attribution.withdrawn(id);
    const ping = this.#connection.post(PING);
    ping.pending.answer.then(
      () => this.late(id),
      () => {},
    );
  }

  /** The call that was taken back is over for the server: it answered all the same, or knows. */
  late(id: number): void {
    this.#attribution.late(id);
  }

  /**
   * The call was answered. Where that began a task, its token lives on: progress of the task comes after the answer
   * (2025-11-25, utilities/tasks §Progress), for the session whose connection it is.
   */
  answered(id: number, pending: PendingRequest): void {
    if (pending.token === null || pending.request === null || bodyField(pending.request, 'task') === null) return;
    const exchange = pending.exchange?.waitsForTask === true ? pending.exchange : null;
    this.#lasting.set(id, { token: pending.token, wire: pending.wire, exchange });
    if (this.#lasting.size > MAX_LASTING) this.#lasting.delete(this.#lasting.keys().next().value!);
  }

  /** The attempt is lost, though its call may be made again: its input requests do not matter any more. */
  lost(pending: PendingRequest): void {
    this.#asks.lost(pending);
  }

  close(): void {
    this.#held = [];
    this.#asks.close();
  }

  #notified(message: Message, stream: number): void {
    if (message.method === 'notifications/progress') this.#progress(message, stream);
    else if (message.method === 'notifications/cancelled') this.#cancelled(message, stream);
    else this.#forClients(message, stream);
  }

  #forClients(message: Message, stream: number): void {
    const { owner } = this.#deps;
    const announcesList = listsChangedBy(message.method).length > 0;
    if (announcesList || message.method === 'notifications/resources/updated') {
      owner.outdated(this.#connection, message);
    }
    if (announcesList) owner.listChanged(this.#connection, message);
    const tagged = message.era === 'stateless' ? subscriptionId(message) : null;
    if (tagged !== null) {
      const listen = this.#pending.get(namedRequest(this.#pending, message.bytes, tagged.start, tagged.end));
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
    const range = bodyField(message, 'progressToken');
    const id = range === null ? 0 : ownId(message.bytes, range.start, range.end);
    const isIts = (one: { readonly wire: string } | undefined): boolean =>
      range !== null && one !== undefined && isLexeme(message.bytes, range.start, range.end, one.wire);
    const pending = isIts(this.#pending.get(id)) ? this.#pending.get(id) : undefined;
    const lasting = isIts(this.#lasting.get(id)) ? this.#lasting.get(id) : undefined;
    // A call whose client sent no token has none of ours either: the server made this one up.
    if (range !== null && pending !== undefined && pending.token !== null) {
      pending.progressed();
      emitFor(pending, message, range, pending.token, this.#flow(stream));
    } else if (range !== null && lasting !== undefined) {
      const renamed = replaced(message, range, lasting.token);
      if (lasting.exchange === null) this.#deps.owner.notified(this.#connection, renamed);
      else lasting.exchange.emit(renamed);
    } else this.#deps.owner.dropped('unmatched');
  }

  #cancelled(message: Message, stream: number): void {
    const range = bodyField(message, 'requestId');
    const id = range === null ? 0 : namedRequest(this.#pending, message.bytes, range.start, range.end);
    const listen = this.#pending.get(id);
    const asked = range === null ? undefined : this.#asks.get(message.bytes.toString('latin1', range.start, range.end));
    if (range !== null && message.era === 'stateless' && listen?.method === LISTEN) {
      emitFor(listen, message, range, listen.request?.id ?? '');
      const error = new GatewayError('UNKNOWN', `${this.#deps.server} ended the subscription`);
      this.#deps.clock.after(GRACEFUL_END_MS, () => this.#connection.lost(id, error));
    } else if (asked === undefined) {
      this.#deps.owner.dropped('unmatched');
    } else {
      // The question may have outlived the call it was put with.
      const live = asked !== null && this.#isPending(asked) ? asked : this.#pending.get(stream);
      const exchange = live?.exchange ?? null;
      if (exchange !== null) exchange.emit(message);
      else this.#deps.owner.notified(this.#connection, message);
    }
  }

  #isPending(one: PendingRequest): boolean {
    for (const pending of this.#pending.values()) if (pending === one) return true;
    return false;
  }

  #asked(message: Message, stream: number): void {
    if (message.method === 'ping') this.#connection.answer([result(message.id, '{}', message.era).bytes]);
    else if (message.era === 'stateless') this.#refuse(message, 'servers send no requests in this revision');
    else if (this.#asks.size >= MAX_ASKS || this.#held.length >= MAX_HELD)
      this.#refuse(message, 'too many requests at once');
    else if (this.#asks.has(message.id)) this.#deps.owner.dropped('unmatched');
    else this.#broker(message, stream);
  }

  /** Finds the one client that may be asked; no other client ever sees the request. */
  #broker(message: Message, stream: number): void {
    const pending = this.#attribution.concerned(message, stream);
    if (pending === 'unknown') {
      this.#refuse(message, 'several calls are in flight, and nothing says which of them asks');
    } else if (pending !== null && pending.exchange !== null) {
      // A pipe does not say which call a question belongs to, if any.
      const likely = stream === 0 && isOneClient(this.#connection.tenancy) && relatedTask(message) === null;
      this.#asks.answerWith(message, pending, pending.exchange.ask(message, likely));
    } else if (isExclusive(this.#connection.tenancy)) {
      this.#asks.answerWith(message, null, this.#deps.owner.asked(this.#connection, message));
    } else if (this.#connection.tenancy.kind === 'spare') {
      this.#held.push({ message, at: this.#deps.clock.now() });
    } else {
      this.#refuse(message, 'this connection belongs to no single client that could be asked');
    }
  }

  #refuse(message: Message, text: string): void {
    this.#deps.owner.dropped('refused');
    // 2026-07-28 over HTTP has not even a way to say so.
    if (message.era === 'stateless' && this.#connection.transport.streamPerRequest) return;
    this.#connection.answer([errorAnswer(message.id, CATALOGUE.METHOD_NOT_FOUND.rpc, text, null, message.era).bytes]);
  }
}

/** Hands the exchange a message in which the server names one of our ids, under the client's own. */
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
