import type { BodyMode, ClientRequest, HttpRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { Flow } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import { IntegerMap } from '../../model/integer-map.ts';
import type { TransportKind } from '../../model/server.ts';
import { HttpEvents, newCursor, type StreamCursor } from './http-event-stream.ts';
import { challengeIn, isAnswer, MAY_HAVE_RUN, tooLargeError } from './http-refusal.ts';
import { HttpSideRequests } from './http-side-requests.ts';
import { UrlTransport } from './http-wire.ts';
import { LingeringResponses } from './lingering-responses.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

const EMPTY = Buffer.alloc(0);

/** The source of the answer to one request. */
export interface PostReply extends Flow {
  /** Whether the server's verdict on the request is still unknown. */
  readonly waiting: boolean;
  abort(): void;
}

/**
 * One request on its own POST, from sending to its end: distinguishes JSON, event streams and refusals, and rejects anything
 * else. One object per call, no closure on the JSON path. Knows no session and no revision.
 */
export class HttpPost implements ResponseHandler, PostReply {
  readonly request: number;
  readonly method: string;
  /** The session id that this POST sent. */
  readonly sessionId: string | null;
  status = 0;
  headers: ResponseHeaders | null = null;
  running: ClientRequest | null = null;
  /** Sent once more if a kept connection ends before the answer; null if sending twice may do harm. */
  repeat: HttpRequest | null = null;
  /** A session check decides what the refusal means. */
  undecided = false;
  readonly #transport: PostTransport;
  #cursor: StreamCursor | null = null;
  #mode: 'waiting' | 'json' | 'events' | 'refused' | 'wrong' = 'waiting';
  #answered = false;
  #over = false;
  #body: Buffer = EMPTY;
  #wrong = '';
  #events: HttpEvents | null = null;

  constructor(transport: PostTransport, request: number, method: string, sessionId: string | null) {
    this.#transport = transport;
    this.request = request;
    this.method = method;
    this.sessionId = sessionId;
  }

  get waiting(): boolean {
    return this.undecided || (!this.#over && (this.#mode === 'waiting' || this.#mode === 'refused'));
  }

  abort(): void {
    this.#over = true;
    this.running?.abort();
  }

  pause(): void {
    this.running?.pause();
  }

  resume(): void {
    this.running?.resume();
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.status = status;
    this.headers = headers;
    if (status < 200 || status > 299) {
      this.#mode = 'refused';
      return 'whole';
    }
    this.#transport.began(this, headers);
    const type = headers.mediaType;
    const encoding = headers.get('content-encoding');
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
      return this.#reject(`the reply has content-encoding ${encoding}, which was not asked for`);
    }
    if (type === 'application/json' && status !== 202 && status !== 204) {
      this.#mode = 'json';
      return 'whole';
    }
    if (type === 'text/event-stream' && this.#transport.takesStreams) {
      this.#mode = 'events';
      const { maxMessageBytes } = this.#transport.options;
      this.#cursor = newCursor();
      this.#events = new HttpEvents(this.#cursor, maxMessageBytes, (data, name) => this.#event(data, name));
      return 'stream';
    }
    if (status !== 200) return this.#reject(`status ${status} is no answer to a request`);
    return this.#reject(type === '' ? 'the reply has no content-type' : `the reply has content-type ${type}`);
  }

  data(chunk: Buffer): void {
    if (this.#over) return;
    if (this.#events === null) {
      this.#body = chunk;
    } else if (!this.#events.push(chunk) && !this.#answered && !this.#isOver()) {
      // The dropped event may have been the answer.
      this.abort();
      this.#transport.loseTooLarge(this.request);
    }
  }

  end(): void {
    this.#ended(null);
  }

  error(failure: HttpFailure): void {
    const { repeat } = this;
    this.repeat = null;
    if (repeat === null || failure.kind !== 'reset' || !failure.reusedConnection || this.headers !== null)
      this.#ended(failure);
    else this.running = this.#transport.client.request(repeat, this);
  }

  #ended(failure: HttpFailure | null): void {
    if (this.#over) return;
    this.#over = true;
    const transport = this.#transport;
    switch (this.#mode) {
      case 'refused':
        transport.refused(this, this.#body);
        return;
      case 'wrong':
        this.#lose(this.#wrong);
        return;
      case 'events':
        if (this.#answered) transport.answered(this);
        else transport.broken(this.request, this.#cursor!, failure);
        return;
      default:
        if (failure !== null) {
          transport.lose(this.request, transport.failure(failure));
        } else if (this.#body.length === 0) {
          this.#lose('the reply is empty');
        } else {
          transport.receiver.received(this.#body, this.request);
          transport.answered(this);
        }
    }
  }

  #event(data: Buffer, name: string): void {
    if (this.#over || name !== 'message') return;
    const first = !this.#answered && isAnswer(data);
    this.#transport.receiver.received(data, this.request);
    if (first && !this.#isOver()) {
      this.#answered = true;
      this.#transport.lingers(this);
    }
  }

  #reject(words: string): BodyMode {
    this.#mode = 'wrong';
    this.#wrong = words;
    return 'whole';
  }

  #lose(words: string): void {
    this.#transport.lose(this.request, this.#transport.error('UPSTREAM_PROTOCOL', words));
  }

  /** The request may be abandoned while messages are delivered. */
  #isOver(): boolean {
    return this.#over;
  }
}

const NONE: readonly string[] = [];
/** Safe to send twice, so that a server that closes a kept connection during a handshake does not count as down. */
const HANDSHAKE: ReadonlySet<string> = new Set(['initialize', 'server/discover']);

/**
 * Common part of transports with a POST per message: the requests in flight and their replies, which are delivered, resumed if
 * their stream broke, or lost.
 */
export abstract class PostTransport extends UrlTransport implements Transport {
  abstract readonly kind: TransportKind;
  readonly streamPerRequest = true;
  /** Whether an event stream is an acceptable reply. */
  abstract readonly takesStreams: boolean;
  protected side!: HttpSideRequests;
  /** Why the connection is about to end; null if it is not. */
  protected closingReason: ClosedReason | null = null;
  readonly #replies = new IntegerMap<PostReply>();
  /** Streams that carried their answer and that the server did not end. */
  readonly #lingering = new LingeringResponses<HttpPost>(this.options.clock, this.limits.lingerMs);
  #closing: Promise<void> | null = null;

  async open(receiver: TransportReceiver): Promise<void> {
    this.connect(receiver, this.takesStreams ? 'application/json, text/event-stream' : 'application/json');
    this.side = new HttpSideRequests(this);
    this.state = 'open';
  }

  abstract send(parts: readonly Buffer[], outgoing: Outgoing): void;
  abstract negotiated(facts: NegotiatedFacts): void;

  /** The server answered with a status. The post stays in flight until `take`. */
  abstract refused(post: HttpPost, body: Buffer): void;

  /** Ends all requests and reports them as lost. */
  protected abstract stop(what: string): void;

  /** Whether the server issued a session, which must be ended. */
  protected get hasSession(): boolean {
    return false;
  }

  /** Fetches the rest of a reply whose stream broke; null if that is impossible. */
  protected resumption(_request: number, _cursor: StreamCursor): PostReply | null {
    return null;
  }

  /** The head of a successful response arrived. */
  began(_post: HttpPost, _headers: ResponseHeaders): void {}

  /** Requests may have ended, or their verdicts have become known. */
  protected settled(): void {}

  abandon(request: number): void {
    if (this.state !== 'open') return;
    this.#replies.get(request)?.abort();
    this.forget(request);
  }

  flow(request: number): Flow | null {
    return this.#replies.get(request) ?? null;
  }

  close(how: CloseReason): Promise<void> {
    this.#closing ??= this.#close(how);
    return this.#closing;
  }

  async #close(how: CloseReason): Promise<void> {
    const wasOpen = this.state === 'open';
    if (wasOpen) this.stop('was closed');
    this.state = 'closed';
    if (!wasOpen) return;
    if (how !== 'interrupt' && this.closingReason === null) {
      await this.side.finish(how === 'remove' && this.hasSession, this.limits.closeMs);
    }
    this.#release();
  }

  /** Ends the connection without a call of `close`. */
  protected end(reason: ClosedReason): void {
    if (this.state !== 'open') return;
    this.stop(reason.kind === 'session_lost' ? 'ended with its session' : 'ended with its credentials');
    this.#release();
    this.receiver.closed(reason);
  }

  #release(): void {
    this.side.stop();
    this.client.close();
  }

  /** Sends one request. */
  protected post(parts: readonly Buffer[], { request, method, headers }: Outgoing): void {
    const block = this.heads.post(headers);
    const post = new HttpPost(this, request, method, this.heads.sessionId);
    this.#replies.set(request, post);
    const { maxMessageBytes: maxBodyBytes } = this.options;
    const sent = { method: 'POST', path: this.path, block, headers: headers ?? NONE, body: parts, maxBodyBytes };
    if (HANDSHAKE.has(method)) post.repeat = { ...sent, fresh: true };
    post.running = this.client.request(sent, post);
  }

  /** Removes a post from those in flight; false if it is not among them any more. */
  protected take(post: HttpPost): boolean {
    return this.#replies.get(post.request) === post && this.#replies.delete(post.request);
  }

  /** Whether the server's verdict on any request is still unknown. */
  protected get waiting(): boolean {
    for (const reply of this.#replies.values()) if (reply.waiting) return true;
    return false;
  }

  /** Reports every in-flight request as lost, with this message. */
  protected loseAll(words: string): void {
    this.state = 'dead';
    this.#lingering.end();
    const requests = this.#replies.numbers();
    for (const reply of this.#replies.values()) reply.abort();
    this.#replies.clear();
    for (const request of requests) this.receiver.lost(request, this.error('UNKNOWN', words));
  }

  answered(post: HttpPost): void {
    this.#lingering.delete(post);
    if (this.take(post)) this.settled();
  }

  /** The stream carried its answer but is still open. */
  lingers(post: HttpPost): void {
    this.#lingering.add(post);
    this.forget(post.request);
  }

  broken(request: number, cursor: StreamCursor, cause: unknown): void {
    const resumption = cursor.lastEventId === null ? null : this.resumption(request, cursor);
    if (resumption === null) {
      const words = `the reply stream ended before the answer; ${MAY_HAVE_RUN}`;
      this.lose(request, this.error('UNKNOWN', words, cause));
    } else {
      this.#replies.set(request, resumption);
      this.settled();
    }
  }

  lose(request: number, error: GatewayError): void {
    this.#replies.delete(request);
    this.receiver.lost(request, error);
    this.settled();
  }

  loseTooLarge(request: number): void {
    this.lose(request, tooLargeError(this.options.server, this.options.maxMessageBytes));
  }

  forget(request: number): void {
    this.#replies.delete(request);
    this.settled();
  }
}

/**
 * Plain JSON-RPC over POST, the minimum a server can offer: one POST per message, a JSON reply or none, no session, no stream,
 * no messages of the server's own. Any status but a success is a loss with the message `mcp http status N: body`. Rejected
 * credentials (401) end the connection.
 */
export class JsonTransport extends PostTransport {
  readonly kind = 'json';
  readonly takesStreams = false;

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request, headers } = outgoing;
    if (this.state !== 'open') this.refuse(request);
    else if (request > 0) this.post(parts, outgoing);
    else this.side.post(parts, this.heads.post(headers), headers ?? [], () => {});
  }

  /** This wire has no session to resume. Stateless revisions are repeated in a header. */
  negotiated(facts: NegotiatedFacts): void {
    if (this.state === 'open' && facts.era === 'stateless') this.heads.revision(facts.revision);
  }

  refused(post: HttpPost, body: Buffer): void {
    if (!this.take(post)) return;
    const headers = post.headers!;
    this.receiver.lost(post.request, this.refusal(post.status, headers, body));
    if (post.status === 401) this.end({ kind: 'auth_required', challenge: challengeIn(headers) });
  }

  protected stop(): void {
    this.loseAll('the connection ended before the answer');
  }
}
