import type { HttpClientPort } from '../../http/client/client-port.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { sweptDefinition } from '../../model/swept-definition.ts';
import { HttpDisowned } from './http-disowned.ts';
import { HttpListening, type ListeningOwner, type StreamDeps } from './http-event-stream.ts';
import type { HttpPost } from './http-post.ts';
import { isServerAnswer, refusalError } from './http-refusal.ts';
import { HttpReplies, type RepliesOwner } from './http-replies.ts';
import { HttpSideRequests } from './http-side-requests.ts';
import {
  clientFor,
  declaredHeaders,
  HTTP_LIMITS,
  HttpHeads,
  type HttpLimits,
  type HttpTransportOptions,
  isSessionId,
  parseServerUrl,
} from './http-wire.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

const ACCEPT = 'application/json, text/event-stream';
const INITIALIZED = 'notifications/initialized';
const NONE: readonly string[] = [];
const FROM_NOW = { after: null, gap: false };

interface PendingMessage {
  readonly parts: readonly Buffer[];
  readonly outgoing: Outgoing;
}

/**
 * Streamable HTTP towards one server, every revision that has it: a POST per message, its reply as JSON or as an
 * event stream of its own.
 *
 * Stateful era (2025-03-26 … 2025-11-25): keeps the session the server gave at `initialize`, repeats it and the
 * revision, listens on the GET stream once `notifications/initialized` was taken, polls reply streams that broke off,
 * deletes the session at `close('remove')` (at `shutdown` it is left for the gateway's next process to resume).
 * Stateless era (2026-07-28): none of that; what the wire repeats comes with each message, and abandoning a request
 * closes its stream, which is its cancellation.
 *
 * When the server disowns the session (404) or the credentials (401), the connection ends; see `HttpDisowned` for
 * what becomes of the other requests. Outcomes: refused with 4xx was not executed; whatever else went out and brought
 * no answer is UNKNOWN. Nothing here limits how long a call may take.
 */
export class HttpTransport implements Transport, ListeningOwner, RepliesOwner {
  readonly kind = 'http';
  readonly pid = null;
  readonly streamPerRequest = true;
  readonly #options: HttpTransportOptions;
  readonly #limits: HttpLimits;
  readonly #secrets: readonly string[];
  readonly #disowned: HttpDisowned;
  #receiver!: TransportReceiver;
  #client!: HttpClientPort;
  #heads!: HttpHeads;
  #side!: HttpSideRequests;
  #replies!: HttpReplies;
  #streams!: StreamDeps;
  #era: 'stateful' | 'stateless' | null = null;
  #initialized = false;
  #listening: HttpListening | null = null;
  /** Where to begin when it listens; null while it is not to. */
  #from: { readonly after: string | null; readonly gap: boolean } | null = FROM_NOW;
  /** What waits for `notifications/initialized` to be taken; null when nothing has to wait. */
  #waiting: PendingMessage[] | null = null;
  #stopWaiting: (() => void) | null = null;
  #state: 'new' | 'open' | 'dead' | 'closed' = 'new';
  #closing: Promise<void> | null = null;

  constructor(options: HttpTransportOptions) {
    this.#options = options;
    this.#limits = options.limits === undefined ? HTTP_LIMITS : { ...HTTP_LIMITS, ...options.limits };
    this.#secrets = sweptDefinition(options.spec).secrets;
    this.#disowned = new HttpDisowned(options.clock, this.#limits.settleMs, (reason) => this.#end(reason));
  }

  async open(receiver: TransportReceiver): Promise<void> {
    const { server, spec, clock, random, maxMessageBytes } = this.#options;
    if (this.#state !== 'new') throw this.#notSent('the connection was opened before');
    const url = parseServerUrl(server, spec.url);
    this.#heads = new HttpHeads(declaredHeaders(server, spec), ACCEPT);
    this.#receiver = receiver;
    this.#client = clientFor(this.#options, url);
    const path = url.pathname + url.search;
    const block = (): HttpHeads['stream'] => this.#heads.stream;
    this.#streams = { client: this.#client, path, block, clock, random, limits: this.#limits, maxMessageBytes };
    this.#side = new HttpSideRequests(this.#client, path, this.#heads, clock);
    const resumable = (): boolean => this.#era !== 'stateless';
    this.#replies = new HttpReplies(this, { ...this.#streams, server, takesStreams: true, resumable });
    this.#state = 'open';
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    if (this.#waiting !== null) this.#waiting.push({ parts, outgoing });
    else this.#dispatch(parts, outgoing);
  }

  abandon(request: number): void {
    if (this.#state !== 'open') return;
    this.#waiting = this.#waiting?.filter(({ outgoing }) => outgoing.request !== request) ?? null;
    this.#disowned.forget(request);
    this.#replies.abandon(request);
  }

  flow(request: number): Flow | null {
    return this.#replies.flow(request);
  }

  negotiated(facts: NegotiatedFacts): void {
    if (this.#state !== 'open') return;
    this.#era = facts.era;
    if (facts.silent === true) this.#from = null;
    // The header came with 2025-06-18; revisions are dates, so they compare as text.
    this.#heads.revision(facts.revision >= '2025-06-18' ? facts.revision : null);
    if (facts.era === 'stateless') {
      this.#heads.session(null);
    } else if (facts.resumeSessionId !== undefined && isSessionId(facts.resumeSessionId)) {
      this.#heads.session(facts.resumeSessionId);
      this.#initialized = true;
    }
    this.#listen();
  }

  listen(after: string | null, gap: boolean): void {
    this.#from = after === null && !gap ? FROM_NOW : { after, gap };
    if (this.#state === 'open') this.#listen();
  }

  silence(): string | null {
    const listening = this.#listening;
    this.#from = null;
    this.#listening = null;
    listening?.close();
    return listening?.lastEventId ?? null;
  }

  stderrTail(): string {
    return '';
  }

  close(how: CloseReason): Promise<void> {
    this.#closing ??= this.#close(how);
    return this.#closing;
  }

  async #close(how: CloseReason): Promise<void> {
    const was = this.#state;
    if (was !== 'open') {
      this.#state = 'closed';
      return;
    }
    const disowned = this.#disowned.reason !== null;
    this.#stop('was closed');
    this.#state = 'closed';
    if (how !== 'interrupt' && !disowned) {
      await this.#side.finish(how === 'remove' && this.#hasSession, this.#limits.closeMs);
    }
    this.#side.stop();
    this.#client.close();
  }

  #dispatch(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request, method, headers } = outgoing;
    if (this.#state !== 'open' || this.#disowned.reason !== null) {
      this.#refuse(request);
      return;
    }
    const block = this.#heads.post(headers);
    if (request > 0) {
      this.#replies.start(parts, outgoing, block, headers ?? NONE, this.#heads.sessionId);
      return;
    }
    if (method === INITIALIZED) this.#holdBack();
    this.#side.post(parts, block, headers ?? NONE, (status, challenge) => this.#posted(method, status, challenge));
  }

  /** For a request that cannot be sent any more. Before the end it is held, so that its retry meets what comes next. */
  #refuse(request: number): void {
    if (request === 0 || this.#state === 'closed') return;
    const error = this.#notSent('the connection has ended');
    if (this.#state === 'open') this.#disowned.hold(request, error);
    else this.#receiver?.lost(request, error);
  }

  // What must not overtake `notifications/initialized`: some servers of the stateful era refuse it (basic/lifecycle).

  #holdBack(): void {
    this.#waiting = [];
    this.#stopWaiting = this.#options.clock.after(this.#limits.initializedMs, () => this.#goOn());
  }

  #goOn(): void {
    this.#stopWaiting?.();
    this.#stopWaiting = null;
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const { parts, outgoing } of waiting) this.#dispatch(parts, outgoing);
  }

  #posted(method: string, status: number, challenge: string | null): void {
    if (this.#state !== 'open') return;
    if (status === 401) this.#disown({ kind: 'auth_required', challenge });
    else if (status === 404 && this.#hasSession) this.#disown({ kind: 'session_lost' });
    if (method !== INITIALIZED) return;
    this.#initialized = true;
    this.#listen();
    if (this.#waiting !== null) this.#goOn();
  }

  get #hasSession(): boolean {
    return this.#era !== 'stateless' && this.#heads.sessionId !== null;
  }

  // What becomes of requests (`RepliesOwner`).

  received(bytes: Buffer, request: number): void {
    this.#receiver.received(bytes, request);
  }

  lost(request: number, error: GatewayError): void {
    this.#receiver.lost(request, error);
  }

  began(post: HttpPost, headers: ResponseHeaders): void {
    if (post.method !== 'initialize') return;
    const id = headers.get('mcp-session-id');
    if (id === undefined || !isSessionId(id)) return;
    this.#heads.session(id);
    this.#receiver.sessionId?.(id);
  }

  refused(post: HttpPost, body: Buffer): void {
    const { status, request } = post;
    const { server, clock } = this.#options;
    const headers = post.headers!;
    const secrets = post.sessionId === null ? this.#secrets : [post.sessionId, ...this.#secrets];
    const error = refusalError({ server, secrets, wallMs: clock.wall() }, status, headers, body);
    const challenge = headers.get('www-authenticate') ?? null;
    const answer = isServerAnswer(status, headers, body, request) ? body : null;
    const inSession = post.sessionId !== null && this.#era !== 'stateless';
    if (status === 401 || (status === 403 && this.#era === null && answer === null)) {
      this.#disownWith(post, error, { kind: 'auth_required', challenge });
    } else if (status === 404 && inSession) {
      this.#disownWith(post, error, { kind: 'session_lost' });
    } else if (status === 400 && inSession) {
      // Some servers say 400 where the specification says 404: only the server itself can tell which is meant.
      post.undecided = true;
      this.#side.checkSession((alive) => {
        if (alive) this.#settle(post, error, answer);
        else this.#disownWith(post, error, { kind: 'session_lost' });
      });
    } else {
      this.#settle(post, error, answer);
    }
  }

  #settle(post: HttpPost, error: GatewayError, answer: Buffer | null): void {
    if (!this.#replies.take(post)) return;
    if (answer === null) this.#receiver.lost(post.request, error);
    else this.#receiver.received(answer, post.request);
    this.settled();
  }

  notResumed(status: number): void {
    if (status === 404 && this.#hasSession) this.#disown({ kind: 'session_lost' });
  }

  settled(): void {
    if (this.#disowned.reason !== null) this.#disowned.settled(this.#replies.waiting);
  }

  // The GET stream (`ListeningOwner`).

  #listen(): void {
    if (this.#era !== 'stateful' || !this.#initialized || this.#listening !== null || this.#from === null) return;
    if (this.#disowned.reason !== null) return;
    const { after, gap } = this.#from;
    this.#listening = new HttpListening(this, this.#streams, after, gap);
    this.#listening.open();
  }

  heard(bytes: Buffer): void {
    this.#receiver.received(bytes, 0);
  }

  missed(): void {
    this.#receiver.missed?.();
  }

  doubtful(status: number, challenge: string | null): void {
    if (status === 401) this.#disown({ kind: 'auth_required', challenge });
    // A server without such a stream says 405, or what its router says; or the session is gone. It can tell which.
    else if (this.#hasSession) this.#side.checkSession((alive) => alive || this.#disown({ kind: 'session_lost' }));
  }

  // The end.

  #disown(reason: ClosedReason): void {
    if (this.#state === 'open') this.#disowned.begin(reason, this.#replies.waiting);
  }

  #disownWith(post: HttpPost, error: GatewayError, reason: ClosedReason): void {
    if (!this.#replies.take(post)) return;
    this.#disowned.hold(post.request, error);
    this.#disown(reason);
  }

  #end(reason: ClosedReason): void {
    if (this.#state !== 'open') return;
    this.#stop(reason.kind === 'session_lost' ? 'ended with its session' : 'ended with its credentials');
    this.#side.stop();
    this.#client.close();
    this.#receiver.closed(reason);
  }

  /** Ends everything that runs and tells of every request that it is lost. */
  #stop(what: string): void {
    this.#state = 'dead';
    this.#listening?.close();
    this.#stopWaiting?.();
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    const inFlight = this.#replies.stop();
    for (const [request, error] of this.#disowned.take()) this.#receiver.lost(request, error);
    const { server } = this.#options;
    for (const request of inFlight) {
      const words = `${server}: the connection ${what} before the answer; the request was sent and may have run`;
      this.#receiver.lost(request, new GatewayError('UNKNOWN', words, { server }));
    }
    for (const { outgoing } of waiting) {
      if (outgoing.request > 0) this.#receiver.lost(outgoing.request, this.#notSent(`the connection ${what}`));
    }
  }

  #notSent(words: string): GatewayError {
    const { server } = this.#options;
    return new GatewayError('NOT_SENT', `${server}: ${words}`, { server });
  }
}
