import type { HttpClientPort } from '../../http/client/client-port.ts';
import type { HeaderBlock } from '../../http/client/header-block.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { ByNumber } from '../../model/by-number.ts';
import type { Clock } from '../../model/clock.ts';
import type { ErrorCode } from '../../model/error-catalogue.ts';
import type { Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import {
  type EventStreamOwner,
  HttpEventStream,
  type StreamCursor,
  type StreamDeps,
  type StreamEnd,
} from './http-event-stream.ts';
import { HttpPost, type PostEnd, type PostOwner } from './http-post.ts';
import { failureError, isAnswer, tooLargeError } from './http-refusal.ts';
import { reconnectDelayMs } from './http-wire.ts';
import type { Outgoing } from './transport.ts';

/**
 * Reply streams that carried their answer and were not ended by the server. Most end in the same instant, so there is
 * no timer per stream: one sweep, only while there are any, cuts what has been here for a whole round.
 */
class HttpLingering {
  readonly #clock: Clock;
  readonly #lingerMs: number;
  /** Null while there are none: of most connections there never are. */
  #young: Set<HttpPost> | null = null;
  #old: Set<HttpPost> | null = null;
  #stop: (() => void) | null = null;

  constructor(clock: Clock, lingerMs: number) {
    this.#clock = clock;
    this.#lingerMs = lingerMs;
  }

  add(post: HttpPost): void {
    this.#young ??= new Set();
    this.#young.add(post);
    if (this.#stop === null) this.#arm();
  }

  delete(post: HttpPost): void {
    if (this.#young?.delete(post) !== true) this.#old?.delete(post);
  }

  close(): void {
    this.#stop?.();
    for (const post of this.#old ?? []) post.abort();
    for (const post of this.#young ?? []) post.abort();
    this.#old = null;
    this.#young = null;
  }

  #arm(): void {
    this.#stop = this.#clock.after(this.#lingerMs, () => {
      this.#stop = null;
      for (const post of this.#old ?? []) post.abort();
      this.#old = this.#young;
      this.#young = null;
      if (this.#old !== null && this.#old.size > 0) this.#arm();
    });
  }
}

/** How the polling of a broken reply stream ended. */
type ResumptionEnd =
  | { readonly kind: 'answered' }
  | { readonly kind: 'too_large' }
  | { readonly kind: 'refused'; readonly status: number; readonly words: string; readonly cause?: unknown }
  | { readonly kind: 'given_up'; readonly words: string; readonly cause?: unknown };

interface ResumptionOwner {
  resumed(request: number, bytes: Buffer): void;
  resumptionEnded(request: number, end: ResumptionEnd): void;
}

/** Least time between two polls that both brought something, whatever the server's `retry` says. */
const MIN_POLL_MS = 20;

/**
 * The rest of one reply stream whose connection ended before the answer: fetched by GET with `Last-Event-ID`, as
 * often as the server closes again (2025-11-25, resumability; servers may close at will and expect this polling).
 * The server's `retry` is respected. It is given up when several reconnects in a row do not lead to a stream; how
 * long all of it may take is the caller's deadline, by `abort`.
 */
class HttpResumption implements EventStreamOwner, Flow {
  readonly #owner: ResumptionOwner;
  readonly #deps: StreamDeps;
  readonly #request: number;
  readonly #cursor: StreamCursor;
  #stream: HttpEventStream | null = null;
  #wake: (() => void) | null = null;
  /** Reconnects in a row without a stream, and without an event. */
  #failures = 0;
  #emptyStreams = 0;
  #polls = 0;
  #over = false;

  constructor(owner: ResumptionOwner, deps: StreamDeps, request: number, cursor: StreamCursor) {
    this.#owner = owner;
    this.#deps = deps;
    this.#request = request;
    this.#cursor = cursor;
    this.#later();
  }

  abort(): void {
    this.#over = true;
    this.#wake?.();
    this.#stream?.abort();
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  opened(): void {
    this.#failures = 0;
  }

  event(stream: HttpEventStream, data: Buffer, name: string): void {
    if (this.#over || name !== 'message') return;
    const last = isAnswer(data);
    this.#owner.resumed(this.#request, data);
    if (!last || this.#over) return;
    stream.abort();
    this.#end({ kind: 'answered' });
  }

  tooLarge(stream: HttpEventStream): void {
    stream.abort();
    this.#end({ kind: 'too_large' });
  }

  ended(stream: HttpEventStream, end: StreamEnd): void {
    this.#stream = null;
    if (this.#over) return;
    if (end.kind === 'refused' && end.status < 500 && end.status !== 429) {
      const words = `the reply stream broke off and could not be resumed (mcp http status ${end.status})`;
      this.#end({ kind: 'refused', status: end.status, words });
      return;
    }
    if (end.kind === 'wrong') {
      this.#end({ kind: 'given_up', words: `the reply stream broke off and ${end.words}` });
      return;
    }
    this.#emptyStreams = stream.eventCount > 0 ? 0 : this.#emptyStreams + 1;
    if (end.kind === 'ended' || ++this.#failures < this.#deps.limits.resumeAttempts) {
      this.#later();
      return;
    }
    const words = `the reply stream broke off and ${this.#failures} reconnects failed`;
    this.#end({ kind: 'given_up', words, cause: end.kind === 'failed' ? end.failure : undefined });
  }

  #later(): void {
    const { clock, limits, random, client, path, block, maxMessageBytes } = this.#deps;
    const ownMs =
      this.#emptyStreams === 0 ? MIN_POLL_MS : reconnectDelayMs(limits, this.#emptyStreams - 1, random.unit());
    const delayMs = Math.max(this.#cursor.retryMs ?? (this.#polls === 0 ? 0 : limits.reconnectMs), ownMs);
    this.#polls++;
    this.#wake = clock.after(delayMs, () => {
      this.#wake = null;
      this.#stream = new HttpEventStream(this, this.#cursor, maxMessageBytes);
      this.#stream.start(client, path, block());
    });
  }

  #end(end: ResumptionEnd): void {
    this.#over = true;
    this.#owner.resumptionEnded(this.#request, end);
  }
}

export interface RepliesOwner {
  received(bytes: Buffer, request: number): void;
  lost(request: number, error: GatewayError): void;
  /** The head of a success. */
  began(post: HttpPost, headers: ResponseHeaders): void;
  /** A status instead of an answer. The post stays among those in flight until `take`. */
  refused(post: HttpPost, body: Buffer): void;
  /** A broken stream was not resumed. Called before its loss is reported. */
  notResumed(status: number): void;
  /** One request fewer is in flight. */
  settled(): void;
}

interface RepliesOptions extends StreamDeps {
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

  /** Ends the request's stream; the owner hears nothing of it. */
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
