import type { HttpClientPort } from '../../http/client/client-port.ts';
import type { HeaderBlock } from '../../http/client/header-block.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { ByNumber } from '../../model/by-number.ts';
import type { ErrorCode } from '../../model/error-catalogue.ts';
import type { Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { StreamDeps } from './http-event-stream.ts';
import { HttpLingering } from './http-lingering.ts';
import { HttpPost, type PostEnd, type PostOwner } from './http-post.ts';
import { failureError, tooLargeError } from './http-refusal.ts';
import { HttpResumption, type ResumptionEnd, type ResumptionOwner } from './http-resumption.ts';
import type { Outgoing } from './transport.ts';

export interface RepliesOwner {
  received(bytes: Buffer, request: number): void;
  lost(request: number, error: GatewayError): void;
  /** The head of a success. */
  began(post: HttpPost, headers: ResponseHeaders): void;
  /** A status instead of an answer. The post stays among those in flight until `take`. */
  refused(post: HttpPost, body: Buffer): void;
  /** A broken stream was not taken up again. Told before its loss is. */
  notResumed(status: number): void;
  /** One request fewer is in flight. */
  settled(): void;
}

export interface RepliesOptions extends StreamDeps {
  readonly server: string;
  readonly takesStreams: boolean;
  /** Whether broken streams may be taken up again by GET. */
  readonly resumable: () => boolean;
}

/**
 * The requests of one transport in flight, each on a POST of its own, and what becomes of their replies: delivered,
 * taken up again where the stream broke off, or lost.
 */
export class HttpReplies implements PostOwner, ResumptionOwner {
  readonly maxMessageBytes: number;
  readonly takesStreams: boolean;
  readonly #owner: RepliesOwner;
  readonly #options: RepliesOptions;
  readonly #client: HttpClientPort;
  readonly #posts = new ByNumber<HttpPost>();
  readonly #resumptions = new Map<number, HttpResumption>();
  readonly #lingering: HttpLingering;

  constructor(owner: RepliesOwner, options: RepliesOptions) {
    this.#owner = owner;
    this.#options = options;
    this.#client = options.client;
    this.maxMessageBytes = options.maxMessageBytes;
    this.takesStreams = options.takesStreams;
    this.#lingering = new HttpLingering(options.clock, options.limits.lingerMs);
  }

  start(
    parts: readonly Buffer[],
    outgoing: Outgoing,
    block: HeaderBlock,
    headers: readonly string[],
    session: string | null,
  ): void {
    const post = new HttpPost(this, outgoing.request, outgoing.method, session);
    this.#posts.set(outgoing.request, post);
    const { path } = this.#options;
    post.run(
      this.#client.request(
        { method: 'POST', path, block, headers, body: parts, maxBodyBytes: this.maxMessageBytes },
        post,
      ),
    );
  }

  /** Ends the request's stream; nothing is told of it. */
  abandon(request: number): void {
    this.#posts.get(request)?.abort();
    this.#resumptions.get(request)?.abort();
    this.#forget(request);
  }

  flow(request: number): Flow | null {
    return this.#posts.get(request) ?? this.#resumptions.get(request) ?? null;
  }

  /** Takes a refused post out of those in flight; false when it is not among them any more. */
  take(post: HttpPost): boolean {
    return this.#posts.get(post.request) === post && this.#posts.delete(post.request);
  }

  /** Whether the server's word on any request is still open. */
  get waiting(): boolean {
    for (const post of this.#posts.values()) if (post.waiting) return true;
    return false;
  }

  /** Ends everything; the requests that were in flight. */
  stop(): number[] {
    const requests = [...this.#posts.numbers(), ...this.#resumptions.keys()];
    this.#lingering.close();
    for (const post of this.#posts.values()) post.abort();
    for (const resumption of this.#resumptions.values()) resumption.abort();
    this.#posts.clear();
    this.#resumptions.clear();
    return requests;
  }

  began(post: HttpPost, headers: ResponseHeaders): void {
    this.#owner.began(post, headers);
  }

  message(post: HttpPost, bytes: Buffer): void {
    this.#owner.received(bytes, post.request);
  }

  lingers(post: HttpPost): void {
    this.#lingering.add(post);
    this.#forget(post.request);
  }

  ended(post: HttpPost, end: PostEnd): void {
    const { request } = post;
    const { server } = this.#options;
    switch (end.kind) {
      case 'answered':
        this.#lingering.delete(post);
        if (this.#posts.get(request) === post) this.#forget(request);
        return;
      case 'refused':
        this.#owner.refused(post, end.body);
        return;
      case 'broken':
        this.#broken(post, end.failure);
        return;
      case 'failed':
        this.#lose(request, failureError(server, end.failure, this.maxMessageBytes));
        return;
      case 'too_large':
        this.#lose(request, tooLargeError(server, this.maxMessageBytes));
        return;
      case 'wrong':
        this.#lose(request, this.#error('UPSTREAM_PROTOCOL', end.words));
    }
  }

  resumed(request: number, bytes: Buffer): void {
    this.#owner.received(bytes, request);
  }

  resumptionEnded(request: number, end: ResumptionEnd): void {
    if (end.kind === 'answered') {
      this.#forget(request);
      return;
    }
    if (end.kind === 'too_large') {
      this.#lose(request, tooLargeError(this.#options.server, this.maxMessageBytes));
      return;
    }
    const words = `${end.words}; the request was sent and may have run`;
    if (end.kind === 'refused') this.#owner.notResumed(end.status);
    // The owner may have ended everything just now, this request included.
    if (this.#resumptions.has(request)) this.#lose(request, this.#error('UNKNOWN', words, end.cause));
  }

  #broken(post: HttpPost, cause: unknown): void {
    const { request, cursor } = post;
    if (cursor === null || cursor.lastEventId === null || !this.#options.resumable()) {
      const words = 'the reply stream ended before the answer; the request was sent and may have run';
      this.#lose(request, this.#error('UNKNOWN', words, cause));
      return;
    }
    this.#posts.delete(request);
    this.#resumptions.set(request, new HttpResumption(this, this.#options, request, cursor));
    this.#owner.settled();
  }

  #lose(request: number, error: GatewayError): void {
    this.#posts.delete(request);
    this.#resumptions.delete(request);
    this.#owner.lost(request, error);
    this.#owner.settled();
  }

  #forget(request: number): void {
    this.#posts.delete(request);
    this.#resumptions.delete(request);
    this.#owner.settled();
  }

  #error(code: ErrorCode, words: string, cause?: unknown): GatewayError {
    const { server } = this.#options;
    return new GatewayError(code, `${server}: ${words}`, { server, cause: cause ?? undefined });
  }
}
