import type { BodyMode, ClientRequest, HttpClientPort, ResponseHandler } from '../../http/client/client-port.ts';
import { HeaderBlock } from '../../http/client/header-block.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { sweptDefinition } from '../../model/swept-definition.ts';
import { type EventStreamOwner, HttpEventStream, newCursor, type StreamEnd } from './http-event-stream.ts';
import { failureError, refusalError, tooLargeError } from './http-refusal.ts';
import {
  clientFor,
  declaredHeaders,
  HTTP_LIMITS,
  type HttpLimits,
  type HttpTransportOptions,
  parseServerUrl,
} from './http-wire.ts';
import { InFlight } from './in-flight.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

/**
 * The URL of an `endpoint` event (2024-11-05, basic/transports), relative or absolute; or, in words, what is wrong
 * with it. It must be of the stream's own origin: a server must not be able to make us send the declared credentials
 * elsewhere.
 */
export function parseEndpoint(text: string, stream: URL): URL | string {
  if (text === '' || !URL.canParse(text, stream.href)) return 'the endpoint event names no URL';
  const url = new URL(text, stream);
  if (url.origin !== stream.origin) return `the endpoint event names another origin (${url.origin}) than the stream's`;
  if (url.username !== '' || url.password !== '') return 'the endpoint event names a URL with credentials';
  return url;
}

interface SsePostOwner {
  /** The POST is over; called before any other method for it. */
  postEnded(post: SsePost): void;
  /** Any status but a success. */
  postRefused(request: number, status: number, headers: ResponseHeaders, body: Buffer): void;
  postFailed(request: number, failure: HttpFailure): void;
}

const EMPTY = Buffer.alloc(0);

/** A message on its way to a 2024-11-05 server. The answer comes on the event stream; here only a refusal counts. */
class SsePost implements ResponseHandler {
  /** 0 for what gets no answer. */
  readonly request: number;
  readonly #owner: SsePostOwner;
  #running: ClientRequest | null = null;
  #status = 0;
  #headers: ResponseHeaders | null = null;
  #body: Buffer = EMPTY;

  constructor(owner: SsePostOwner, request: number) {
    this.#owner = owner;
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

  run(running: ClientRequest): void {
    this.#running = running;
  }

  /** The owner is not called. */
  abort(): void {
    this.#running?.abort();
  }

  end(): void {
    this.#owner.postEnded(this);
    if (this.#refused) this.#owner.postRefused(this.request, this.#status, this.#headers!, this.#body);
  }

  error(failure: HttpFailure): void {
    if (this.#headers !== null) {
      this.end();
      return;
    }
    this.#owner.postEnded(this);
    this.#owner.postFailed(this.request, failure);
  }

  get #refused(): boolean {
    return this.#status < 200 || this.#status > 299;
  }
}

const NONE: readonly string[] = [];

interface Opening {
  readonly resolve: () => void;
  readonly reject: (error: GatewayError) => void;
  readonly stopTimer: () => void;
}

/**
 * HTTP+SSE of revision 2024-11-05 (basic/transports): one event stream on which the server says everything, answers
 * included, and a URL it names there for our POSTs. All messages share the stream, so what is in flight is known from
 * the ids of the answers. The stream is the session: its loss ends the connection, and what was in flight is UNKNOWN.
 * The stream may live and be silent for any time.
 */
export class SseTransport implements Transport, EventStreamOwner, SsePostOwner {
  readonly kind = 'sse';
  readonly pid = null;
  readonly streamPerRequest = false;
  readonly #options: HttpTransportOptions;
  readonly #limits: HttpLimits;
  readonly #inFlight = new InFlight();
  readonly #posts = new Set<SsePost>();
  #secrets: readonly string[];
  #receiver!: TransportReceiver;
  #client!: HttpClientPort;
  #stream!: HttpEventStream;
  #block!: HeaderBlock;
  #url!: URL;
  /** Where to POST: path and query. */
  #path = '';
  #opening: Opening | null = null;
  #state: 'new' | 'opening' | 'open' | 'dead' | 'closed' = 'new';

  constructor(options: HttpTransportOptions) {
    this.#options = options;
    this.#limits = { ...HTTP_LIMITS, ...options.limits };
    this.#secrets = sweptDefinition(options.spec).secrets;
  }

  async open(receiver: TransportReceiver): Promise<void> {
    const { server, spec, clock, maxMessageBytes } = this.#options;
    if (this.#state !== 'new') throw this.#error('NOT_SENT', 'the connection was opened before');
    this.#url = parseServerUrl(server, spec.url);
    const declared = declaredHeaders(server, spec);
    this.#block = new HeaderBlock([...declared, 'Content-Type', 'application/json', 'Accept', 'application/json']);
    this.#receiver = receiver;
    this.#client = clientFor(this.#options, this.#url);
    this.#stream = new HttpEventStream(this, newCursor(), maxMessageBytes);
    this.#state = 'opening';
    const stopTimer = clock.after(this.#limits.endpointMs, () => {
      this.#fail(this.#error('NOT_SENT', `no endpoint event within ${this.#limits.endpointMs} ms`));
    });
    const opened = new Promise<void>((resolve, reject) => {
      this.#opening = { resolve, reject, stopTimer };
    });
    const block = new HeaderBlock([...declared, 'Accept', 'text/event-stream']);
    this.#stream.start(this.#client, this.#url.pathname + this.#url.search, block);
    await opened;
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request, headers } = outgoing;
    if (this.#state !== 'open') {
      if (request > 0 && this.#state === 'dead') {
        this.#receiver.lost(request, this.#error('NOT_SENT', 'the connection has ended'));
      }
      return;
    }
    this.#inFlight.add(request);
    const post = new SsePost(this, request);
    this.#posts.add(post);
    post.run(
      this.#client.request(
        { method: 'POST', path: this.#path, block: this.#block, headers: headers ?? NONE, body: parts },
        post,
      ),
    );
  }

  /** A server may answer the POST only with the answer itself: that is not awaited any more. */
  abandon(request: number): void {
    if (!this.#inFlight.delete(request)) return;
    for (const post of this.#posts) {
      if (post.request !== request) continue;
      post.abort();
      this.#posts.delete(post);
    }
  }

  negotiated(_facts: NegotiatedFacts): void {}

  stderrTail(): string {
    return '';
  }

  async close(_how: CloseReason): Promise<void> {
    const was = this.#state;
    if (was === 'opening') this.#fail(this.#error('NOT_SENT', 'the connection was closed'));
    if (was === 'open') this.#stop('was closed');
    this.#state = 'closed';
  }

  // The event stream.

  opened(): void {}

  event(_stream: HttpEventStream, data: Buffer, name: string): void {
    if (name === 'endpoint') {
      this.#endpoint(data.toString('utf8').trim());
    } else if (name === 'message' && this.#state === 'open') {
      this.#inFlight.settle(data);
      this.#receiver.received(data, 0);
    }
  }

  /** The event is gone, and with it perhaps an answer: only where one request is in flight is it known whose. */
  tooLarge(): void {
    if (this.#state !== 'open' || this.#inFlight.size !== 1) return;
    const [request] = this.#inFlight.takeAll();
    this.#receiver.lost(request!, tooLargeError(this.#options.server, this.#options.maxMessageBytes));
  }

  ended(_stream: HttpEventStream, end: StreamEnd): void {
    if (this.#state === 'opening') {
      this.#fail(this.#openError(end));
      return;
    }
    const words = end.kind === 'failed' ? `the event stream broke (${end.failure.message})` : 'the event stream ended';
    const error = this.#error('NOT_SENT', words);
    this.#end({ kind: 'unreachable', error });
  }

  #endpoint(text: string): void {
    // Only the first one counts: a later one would move a running session elsewhere.
    if (this.#state !== 'opening') return;
    const endpoint = parseEndpoint(text, this.#url);
    if (typeof endpoint === 'string') {
      const { server } = this.#options;
      const words = `${server}: ${endpoint}`;
      this.#fail(new GatewayError('UPSTREAM_PROTOCOL', words, { server, outcome: 'NOT_SENT', retryable: false }));
      return;
    }
    this.#path = endpoint.pathname + endpoint.search;
    // Its query names the session, so it is a secret.
    const values = [...endpoint.searchParams.values()].filter((value) => value.length >= 4);
    this.#secrets = [...values, ...this.#secrets];
    this.#state = 'open';
    const opening = this.#opening!;
    this.#opening = null;
    opening.stopTimer();
    opening.resolve();
  }

  #openError(end: StreamEnd): GatewayError {
    const { server, clock, maxMessageBytes } = this.#options;
    switch (end.kind) {
      case 'refused': {
        const context = { server, secrets: this.#secrets, wallMs: clock.wall() };
        const error = refusalError(context, end.status, end.headers, end.body);
        // Nothing but a GET went out, so that whatever the status was, no call is in doubt.
        if (error.outcome !== 'UNKNOWN') return error;
        return new GatewayError('NOT_SENT', error.message, { server, cause: error.cause });
      }
      case 'failed': {
        const error = failureError(server, end.failure, maxMessageBytes);
        return new GatewayError('NOT_SENT', error.message, { server, cause: end.failure });
      }
      case 'wrong':
        return new GatewayError('UPSTREAM_PROTOCOL', `${server}: ${end.words}`, {
          server,
          outcome: 'NOT_SENT',
          retryable: false,
        });
      case 'ended':
        return this.#error('NOT_SENT', 'the event stream ended without an endpoint event');
    }
  }

  // POSTs.

  postEnded(post: SsePost): void {
    this.#posts.delete(post);
  }

  postRefused(request: number, status: number, headers: ResponseHeaders, body: Buffer): void {
    if (this.#state !== 'open') return;
    const { server, clock } = this.#options;
    const error = refusalError({ server, secrets: this.#secrets, wallMs: clock.wall() }, status, headers, body);
    if (this.#inFlight.delete(request)) this.#receiver.lost(request, error);
    if (status === 404) this.#end({ kind: 'session_lost' });
    if (status === 401) this.#end({ kind: 'auth_required', challenge: headers.get('www-authenticate') ?? null });
  }

  postFailed(request: number, failure: HttpFailure): void {
    if (this.#state !== 'open' || !this.#inFlight.delete(request)) return;
    const { server, maxMessageBytes } = this.#options;
    this.#receiver.lost(request, failureError(server, failure, maxMessageBytes));
  }

  // The end.

  /** Before it was open: `open` rejects. */
  #fail(error: GatewayError): void {
    if (this.#state !== 'opening') return;
    this.#state = 'dead';
    const opening = this.#opening!;
    this.#opening = null;
    opening.stopTimer();
    this.#stream.abort();
    this.#client.close();
    opening.reject(error);
  }

  #end(reason: ClosedReason): void {
    if (this.#state !== 'open') return;
    this.#stop('ended');
    this.#receiver.closed(reason);
  }

  #stop(what: string): void {
    this.#state = 'dead';
    this.#stream.abort();
    for (const post of this.#posts) post.abort();
    this.#posts.clear();
    for (const request of this.#inFlight.takeAll()) {
      const words = `the connection ${what} before the answer; the request was sent and may have run`;
      this.#receiver.lost(request, this.#error('UNKNOWN', words));
    }
    this.#client.close();
  }

  #error(code: 'NOT_SENT' | 'UNKNOWN', words: string): GatewayError {
    const { server } = this.#options;
    return new GatewayError(code, `${server}: ${words}`, { server });
  }
}
