import type { BodyMode, ClientRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { HttpEventStream, type StreamEnd } from './http-event-stream.ts';
import { challengeIn, MAY_HAVE_RUN, tooLargeError } from './http-refusal.ts';
import { UrlTransport } from './http-wire.ts';
import { InFlight } from './in-flight.ts';
import { LingeringResponses } from './lingering-responses.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

/**
 * The URL of an `endpoint` event (2024-11-05, basic/transports), relative or absolute; or a message that says what is wrong
 * with it. It must have the stream's origin: a server must not make the gateway send the declared credentials elsewhere.
 */
export function parseEndpoint(text: string, stream: URL): URL | string {
  if (text.length > MAX_ENDPOINT_LENGTH)
    return `the endpoint event names a URL of more than ${MAX_ENDPOINT_LENGTH} characters`;
  if (text === '' || !URL.canParse(text, stream.href)) return 'the endpoint event names no URL';
  const url = new URL(text, stream);
  if (url.origin !== stream.origin) return `the endpoint event names another origin (${url.origin}) than the stream's`;
  if (url.username !== '' || url.password !== '') return 'the endpoint event names a URL with credentials';
  return url;
}

const EMPTY = Buffer.alloc(0);
const MAX_ENDPOINT_LENGTH = 8 * 1024;
/** How long the server may take to end the POST of a message without an answer. */
const VERDICT_MS = 30_000;

/** A POST to a 2024-11-05 server. The answer arrives on the event stream; here only a refusal counts. */
class SsePost implements ResponseHandler {
  /** 0 for a message without an answer. */
  readonly request: number;
  readonly #transport: SseTransport;
  running: ClientRequest | null = null;
  #status = 0;
  #headers: ResponseHeaders | null = null;
  #body: Buffer = EMPTY;

  constructor(transport: SseTransport, request: number) {
    this.#transport = transport;
    this.request = request;
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.#status = status;
    this.#headers = headers;
    return this.#refused ? 'whole' : 'stream';
  }

  data(chunk: Buffer): void {
    if (this.#refused) this.#body = chunk;
  }

  end(): void {
    this.#transport.postEnded(this);
    if (this.#refused) this.#transport.postRefused(this.request, this.#status, this.#headers!, this.#body);
  }

  error(failure: HttpFailure): void {
    if (this.#headers !== null) {
      this.end();
      return;
    }
    this.#transport.postEnded(this);
    this.#transport.postFailed(this.request, failure);
  }

  abort(): void {
    this.running?.abort();
    this.#transport.postEnded(this);
  }

  get #refused(): boolean {
    return this.#status < 200 || this.#status > 299;
  }
}

class SessionStream extends HttpEventStream<SseTransport> {
  protected event(data: Buffer, name: string): void {
    this.transport.onEvent(data, name);
  }

  protected tooLarge(): void {
    this.transport.tooLarge();
  }

  protected ended(end: StreamEnd): void {
    this.transport.streamEnded(end);
  }
}

/**
 * HTTP+SSE of revision 2024-11-05 (basic/transports): one event stream for all messages of the server, answers included, and a
 * URL for POSTs, which the server sends on it. All messages share the stream, so the transport tracks requests in flight by the
 * ids of the answers. The stream is the session: its loss ends the connection, and in-flight requests are UNKNOWN. The stream
 * may be silent for any time.
 */
export class SseTransport extends UrlTransport implements Transport {
  readonly kind = 'sse';
  readonly streamPerRequest = false;
  readonly #inFlight = new InFlight();
  /** By request. */
  readonly #posts = new Map<number, SsePost>();
  /** Of requests that were answered on the stream, and of messages without an answer. */
  readonly #answered = new LingeringResponses<SsePost>(this.options.clock, this.limits.lingerMs);
  readonly #unasked = new LingeringResponses<SsePost>(this.options.clock, VERDICT_MS);
  readonly #stream = new SessionStream(this);
  /** Settles `open`. */
  readonly #opened = Promise.withResolvers<void>();
  #stopTimer: (() => void) | null = null;
  /** Path of the POSTs. */
  #path = '';

  async open(receiver: TransportReceiver): Promise<void> {
    this.connect(receiver, 'application/json');
    this.state = 'opening';
    const { endpointMs } = this.limits;
    this.#stopTimer = this.options.clock.after(endpointMs, () => {
      this.#fail(this.error('NOT_SENT', `no endpoint event within ${endpointMs} ms`));
    });
    this.#stream.open();
    await this.#opened.promise;
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request, headers } = outgoing;
    if (this.state !== 'open') {
      this.refuse(request);
      return;
    }
    this.#inFlight.add(request);
    const post = new SsePost(this, request);
    if (request === 0) this.#unasked.add(post);
    else this.#posts.set(request, post);
    const block = this.heads.post(null);
    post.running = this.client.request(
      { method: 'POST', path: this.#path, block, headers: headers ?? [], body: parts },
      post,
    );
  }

  /** Some servers answer the POST only when they answer the request: aborts the POST too. */
  abandon(request: number): void {
    if (this.#inFlight.delete(request)) this.#posts.get(request)?.abort();
  }

  negotiated(_facts: NegotiatedFacts): void {}

  async close(_how: CloseReason): Promise<void> {
    if (this.state === 'opening') this.#fail(this.error('NOT_SENT', 'the connection was closed'));
    if (this.state === 'open') this.#stop('was closed');
    this.state = 'closed';
  }

  // The event stream.

  onEvent(data: Buffer, name: string): void {
    if (name === 'endpoint') {
      this.#endpoint(data.toString('utf8').trim());
    } else if (name === 'message' && this.state === 'open') {
      this.#inFlight.settle(data, (request) => {
        const post = this.#posts.get(request);
        if (post !== undefined) this.#answered.add(post);
      });
      this.receiver.received(data, 0);
    }
  }

  /** The dropped event may have been an answer: which request lost it is known only if exactly one is in flight. */
  tooLarge(): void {
    if (this.state !== 'open' || this.#inFlight.size !== 1) return;
    const [request] = this.#inFlight.takeAll();
    this.receiver.lost(request!, tooLargeError(this.options.server, this.options.maxMessageBytes));
  }

  streamEnded(end: StreamEnd): void {
    if (this.state === 'opening') {
      this.#fail(this.#openError(end));
      return;
    }
    const words = end.kind === 'failed' ? `the event stream broke (${end.failure.message})` : 'the event stream ended';
    this.#end({ kind: 'unreachable', error: this.error('NOT_SENT', words) });
  }

  /** Only the first endpoint counts: a later one would move a running session elsewhere. */
  #endpoint(text: string): void {
    if (this.state !== 'opening') return;
    const endpoint = parseEndpoint(text, this.url);
    if (typeof endpoint === 'string') {
      this.#fail(this.#noServer(endpoint));
      return;
    }
    this.#path = endpoint.pathname + endpoint.search;
    // The query identifies the session, so it is a secret.
    const values = [...endpoint.searchParams.values()].filter((value) => value.length >= 4);
    this.secrets = [...values, ...this.secrets];
    this.state = 'open';
    this.#stopTimer?.();
    this.#opened.resolve();
  }

  #openError(end: StreamEnd): GatewayError {
    const { server } = this.options;
    switch (end.kind) {
      case 'refused': {
        const error = this.refusal(end.status, end.headers, end.body);
        // Only a GET was sent: no call is in doubt, whatever the status.
        if (error.outcome !== 'UNKNOWN') return error;
        return new GatewayError('NOT_SENT', error.message, { server, cause: error.cause });
      }
      case 'failed':
        return new GatewayError('NOT_SENT', this.failure(end.failure).message, { server, cause: end.failure });
      case 'wrong':
        return this.#noServer(end.words);
      case 'ended':
        return this.error('NOT_SENT', 'the event stream ended without an endpoint event');
    }
  }

  /** The error for a server that does not speak this protocol. */
  #noServer(words: string): GatewayError {
    const { server } = this.options;
    const data = { server, outcome: 'NOT_SENT', retryable: false } as const;
    return new GatewayError('UPSTREAM_PROTOCOL', `${server}: ${words}`, data);
  }

  // POSTs.

  /** Called first when a POST has ended. */
  postEnded(post: SsePost): void {
    this.#posts.delete(post.request);
    this.#answered.delete(post);
    this.#unasked.delete(post);
  }

  postRefused(request: number, status: number, headers: ResponseHeaders, body: Buffer): void {
    if (this.state !== 'open') return;
    if (this.#inFlight.delete(request)) this.receiver.lost(request, this.refusal(status, headers, body));
    if (status === 404) this.#end({ kind: 'session_lost' });
    if (status === 401) this.#end({ kind: 'auth_required', challenge: challengeIn(headers) });
  }

  postFailed(request: number, failure: HttpFailure): void {
    if (this.state === 'open' && this.#inFlight.delete(request)) this.receiver.lost(request, this.failure(failure));
  }

  // The end.

  /** Fails before the connection is open: `open` rejects. */
  #fail(error: GatewayError): void {
    if (this.state !== 'opening') return;
    this.state = 'dead';
    this.#stopTimer?.();
    this.#stream.abort();
    this.client.close();
    this.#opened.reject(error);
  }

  #end(reason: ClosedReason): void {
    if (this.state !== 'open') return;
    this.#stop('ended');
    this.receiver.closed(reason);
  }

  #stop(what: string): void {
    this.state = 'dead';
    this.#stream.abort();
    this.#unasked.end();
    for (const post of this.#posts.values()) post.abort();
    this.#answered.end();
    for (const request of this.#inFlight.takeAll()) {
      const words = `the connection ${what} before the answer; ${MAY_HAVE_RUN}`;
      this.receiver.lost(request, this.error('UNKNOWN', words));
    }
    this.client.close();
  }
}
