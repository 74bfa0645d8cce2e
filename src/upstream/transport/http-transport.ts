import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { HttpSpec } from '../../model/server.ts';
import { HttpEventStream, newCursor, type StreamCursor, type StreamEnd } from './http-event-stream.ts';
import { challengeIn, isAnswer, isServerAnswer, MAY_HAVE_RUN } from './http-refusal.ts';
import { type HttpPost, type PostReply, PostTransport } from './post-transport.ts';
import type { ClosedReason, NegotiatedFacts, Outgoing } from './transport.ts';

/**
 * When a server last refused the GET stream (405). For a while, only connections that last a moment try it again, so that short
 * sessions do not waste a request.
 */
const WITHOUT_STREAM = new WeakMap<HttpSpec, number>();
const STREAM_REFUSAL_TTL_MS = 60_000;
const MIN_CONNECTION_AGE_MS = 5_000;
/** A stream that was open this long, even without a message, resets the back-off. */
const SETTLED_MS = 10_000;
/** Lower bounds of the server's `retry`; a larger one after several attempts without a message. */
const MIN_RETRY_MS = 20;
const BARREN_RETRY_MS = 1_000;
const IMPATIENT_ATTEMPTS = 3;

/**
 * The stateful era's GET stream: the server's messages outside any request (2025-11-25, listening for messages). A server
 * without one (405, or any response that is not a stream) is not asked again. A lost stream is reopened with the last event id
 * after the server's `retry`, or with back-off, as long as the connection lives: waiting costs nothing and nothing else would
 * reopen it.
 */
class HttpListening extends HttpEventStream<HttpTransport> {
  #attempt = 0;
  /** Monotonic time of the last opening; null before the first. */
  #openedAt: number | null = null;
  /** This response was opened. */
  #open = false;
  readonly #gap: boolean;

  /** `after`: the last event that another listener received; `gap`: events after it may have been missed. */
  constructor(transport: HttpTransport, after: string | null, gap: boolean) {
    super(transport, newCursor(after));
    this.#gap = gap;
  }

  get lastEventId(): string | null {
    return this.cursor.lastEventId;
  }

  protected override opened(): void {
    const replayed = this.lastEventId !== null;
    if ((this.#openedAt !== null || this.#gap) && !replayed) this.tooLarge();
    this.#openedAt = this.transport.options.clock.now();
    this.#open = true;
  }

  protected event(data: Buffer, name: string): void {
    if (name !== 'message') return;
    this.#attempt = 0;
    this.transport.receiver.received(data, 0);
  }

  /** Reports missed messages. */
  protected tooLarge(): void {
    this.transport.receiver.missed?.();
  }

  protected ended(end: StreamEnd): void {
    if (end.kind === 'refused' && !isTransient(end.status)) {
      this.transport.notListening(end.status, challengeIn(end.headers));
      return;
    }
    if (end.kind === 'wrong' && this.#openedAt === null) return;
    const openMs = this.#open ? this.transport.options.clock.now() - this.#openedAt! : 0;
    this.#open = false;
    if (openMs >= SETTLED_MS) this.#attempt = 0;
    const ownMs = this.backoffMs(this.#attempt);
    // Without event ids each opening reports missed messages.
    const gap = this.#openedAt !== null && this.lastEventId === null;
    const impatient = this.#attempt < IMPATIENT_ATTEMPTS;
    const leastMs = gap ? BARREN_RETRY_MS : impatient ? MIN_RETRY_MS : Math.min(ownMs, BARREN_RETRY_MS);
    this.#attempt++;
    this.openIn(Math.max(this.cursor.retryMs ?? ownMs, leastMs));
  }
}

/** Statuses that do not show whether the server has such a stream. 409: the server assumes that it is open elsewhere. */
function isTransient(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || (status >= 500 && status !== 501);
}

/** Minimum time between two polls that both returned events, even with a shorter `retry`. */
const MIN_POLL_MS = 20;

/**
 * The rest of one reply stream whose connection ended before the answer: fetched by GET with `Last-Event-ID`, as often as the
 * server closes it (2025-11-25, resumability; servers may close at will and expect this polling). The server's `retry` is
 * respected. It fails after several reconnects in a row without a stream; the caller's deadline limits the total time, by
 * `abort`.
 */
class HttpResumption extends HttpEventStream<HttpTransport> {
  readonly waiting = false;
  readonly #request: number;
  /** Failed reconnects in a row, and reconnects in a row without an event. */
  #failures = 0;
  #barren = 0;

  constructor(transport: HttpTransport, request: number, cursor: StreamCursor) {
    super(transport, cursor);
    this.#request = request;
    this.#poll(0);
  }

  protected override opened(): void {
    this.#failures = 0;
  }

  protected event(data: Buffer, name: string): void {
    if (name !== 'message') return;
    const last = isAnswer(data);
    this.transport.receiver.received(data, this.#request);
    if (!last || this.aborted) return;
    this.abort();
    this.transport.forget(this.#request);
  }

  protected tooLarge(): void {
    this.abort();
    this.transport.loseTooLarge(this.#request);
  }

  protected ended(end: StreamEnd): void {
    const { limits } = this.transport;
    if (end.kind === 'refused' && end.status < 500 && end.status !== 429) {
      this.transport.notResumed(end.status);
      // The transport may have ended just now, and this request with it.
      if (!this.aborted) this.#lose(`could not be resumed (mcp http status ${end.status})`);
      return;
    }
    if (end.kind === 'wrong') {
      this.#lose(end.words);
      return;
    }
    this.#barren = this.eventCount > 0 ? 0 : this.#barren + 1;
    if (end.kind === 'ended' || ++this.#failures < limits.resumeAttempts) this.#poll(limits.reconnectMs);
    else this.#lose(`${this.#failures} reconnects failed`, end.kind === 'failed' ? end.failure : undefined);
  }

  #poll(usualMs: number): void {
    const leastMs = this.#barren === 0 ? MIN_POLL_MS : this.backoffMs(this.#barren - 1);
    this.openIn(Math.max(this.cursor.retryMs ?? usualMs, leastMs));
  }

  #lose(words: string, cause?: unknown): void {
    const message = `the reply stream broke off and ${words}; ${MAY_HAVE_RUN}`;
    this.transport.lose(this.#request, this.transport.error('UNKNOWN', message, cause));
  }
}

const INITIALIZED = 'notifications/initialized';
const FROM_NOW = { after: null, gap: false };
const SESSION_ID = /^[\x21-\x7e]{1,1024}$/;

/** Whether a server's session id is valid: visible ASCII (2025-11-25, session management). */
function isSessionId(text: string | undefined): text is string {
  return text !== undefined && SESSION_ID.test(text);
}

/**
 * Streamable HTTP client for one server, all revisions that have it: a POST per message, with the reply as JSON or as an event
 * stream.
 *
 * Stateful era (2025-03-26 … 2025-11-25): keeps the session id that the server issued at `initialize`, sends it and the
 * revision, listens on the GET stream once `notifications/initialized` was accepted, polls broken reply streams, deletes the
 * session at `close('remove')` (at `shutdown` the session stays for the gateway's next process). Stateless era (2026-07-28):
 * none of that; each message carries what the wire repeats, and abandoning a request closes its stream, which cancels it.
 *
 * When the server rejects the session (404) or the credentials (401), the connection ends. Requests in progress most likely get
 * the same status, which makes them safe to retry: the transport waits for them briefly and reports all these losses together
 * at the end, so that a retry opens a new connection. Outcomes: a request refused with 4xx was not executed; any other request
 * that was sent and got no answer is UNKNOWN. The transport does not limit the duration of a call.
 */
export class HttpTransport extends PostTransport {
  readonly kind = 'http';
  readonly takesStreams = true;
  #era: 'stateful' | 'stateless' | null = null;
  #initialized = false;
  #listening: HttpListening | null = null;
  /** Where to start listening; null if it must not listen. */
  #listenFrom: { readonly after: string | null; readonly gap: boolean } | null = FROM_NOW;
  /** Messages that wait until `notifications/initialized` was accepted; null if none has to wait. */
  #waiting: { readonly parts: readonly Buffer[]; readonly outgoing: Outgoing }[] | null = null;
  #stopWaiting: (() => void) | null = null;
  #stopListeningLater: (() => void) | null = null;
  /** Losses to report when the connection, whose session or credentials were rejected, ends. */
  #losses: Map<number, GatewayError> | null = null;
  #stopSettling: (() => void) | null = null;

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    if (this.#waiting !== null) this.#waiting.push({ parts, outgoing });
    else this.#dispatch(parts, outgoing);
  }

  override abandon(request: number): void {
    this.#waiting = this.#waiting?.filter(({ outgoing }) => outgoing.request !== request) ?? null;
    this.#losses?.delete(request);
    super.abandon(request);
  }

  negotiated(facts: NegotiatedFacts): void {
    if (this.state !== 'open') return;
    this.#era = facts.era;
    if (facts.silent === true) this.#listenFrom = null;
    // The header came with 2025-06-18; revisions are dates, so they compare as text.
    this.heads.revision(facts.revision >= '2025-06-18' ? facts.revision : null);
    if (facts.era === 'stateless') {
      this.heads.session(null);
    } else if (isSessionId(facts.resumeSessionId)) {
      this.heads.session(facts.resumeSessionId);
      this.#initialized = true;
    }
    this.#listen();
  }

  listen(after: string | null, gap: boolean): void {
    this.#listenFrom = { after, gap };
    if (this.state === 'open') this.#listen();
  }

  silence(): string | null {
    const listening = this.#listening;
    this.#listenFrom = null;
    this.#listening = null;
    listening?.abort();
    return listening?.lastEventId ?? null;
  }

  /** `waited`: the connection has lasted for the required moment. */
  #listen(waited = false): void {
    if (this.#era !== 'stateful' || !this.#initialized || this.#listening !== null || this.#listenFrom === null) return;
    if (this.closingReason !== null) return;
    const { clock, spec } = this.options;
    if (!waited && clock.now() - (WITHOUT_STREAM.get(spec) ?? Number.NEGATIVE_INFINITY) < STREAM_REFUSAL_TTL_MS) {
      this.#stopListeningLater ??= clock.after(MIN_CONNECTION_AGE_MS, () => {
        this.#stopListeningLater = null;
        this.#listen(true);
      });
      return;
    }
    this.#listening = new HttpListening(this, this.#listenFrom.after, this.#listenFrom.gap);
    this.#listening.open();
  }

  /** The server refused the GET stream, possibly with a status that concerns the whole connection. */
  notListening(status: number, challenge: string | null): void {
    if (status === 405) WITHOUT_STREAM.set(this.options.spec, this.options.clock.now());
    else if (status === 401) this.#disown({ kind: 'auth_required', challenge });
    // A server without such a stream answers 405, or what its router answers; or the session is lost. A session check decides.
    else if ((status === 400 || status === 404) && this.hasSession) {
      this.side.checkSession((alive) => alive || this.#disown({ kind: 'session_lost' }));
    }
  }

  #dispatch(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request, method, headers } = outgoing;
    if (this.state !== 'open') {
      this.refuse(request);
    } else if (this.closingReason !== null) {
      if (request > 0) this.#loseLater(request, this.error('NOT_SENT', 'the connection has ended'));
    } else if (request > 0) {
      this.post(parts, outgoing);
    } else {
      if (method === INITIALIZED) this.#holdBack();
      const done = (status: number, challenge: string | null): void => this.#posted(method, status, challenge);
      this.side.post(parts, this.heads.post(headers), headers ?? [], done);
    }
  }

  // Messages that must not overtake `notifications/initialized`: some servers of the stateful era refuse them
  // (basic/lifecycle).

  #holdBack(): void {
    this.#waiting = [];
    this.#stopWaiting = this.options.clock.after(this.limits.initializedMs, () => this.#sendWaiting());
  }

  #sendWaiting(): void {
    this.#stopWaiting?.();
    this.#stopWaiting = null;
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const { parts, outgoing } of waiting) this.#dispatch(parts, outgoing);
  }

  #posted(method: string, status: number, challenge: string | null): void {
    if (this.state !== 'open') return;
    if (status === 401) this.#disown({ kind: 'auth_required', challenge });
    else if (status === 404 && this.hasSession) this.#disown({ kind: 'session_lost' });
    if (method !== INITIALIZED) return;
    this.#initialized = true;
    this.#listen();
    if (this.#waiting !== null) this.#sendWaiting();
  }

  protected override get hasSession(): boolean {
    return this.#era !== 'stateless' && this.heads.sessionId !== null;
  }

  protected override resumption(request: number, cursor: StreamCursor): PostReply | null {
    return this.#era === 'stateless' ? null : new HttpResumption(this, request, cursor);
  }

  override began(post: HttpPost, headers: ResponseHeaders): void {
    if (post.method !== 'initialize') return;
    const id = headers.get('mcp-session-id');
    if (!isSessionId(id)) return;
    this.heads.session(id);
    this.receiver.sessionId?.(id);
  }

  refused(post: HttpPost, body: Buffer): void {
    const { status, request, sessionId } = post;
    const headers = post.headers!;
    const error = this.refusal(status, headers, body, sessionId);
    const answer = isServerAnswer(status, headers, body, request) ? body : null;
    const inSession = sessionId !== null && this.#era !== 'stateless';
    if (status === 401 || (status === 403 && this.#era === null && answer === null)) {
      const challenge = challengeIn(headers);
      this.#disownWith(post, error, { kind: 'auth_required', challenge, ...(status === 403 ? { status } : {}) });
    } else if (status === 404 && inSession) {
      this.#disownWith(post, error, { kind: 'session_lost' });
    } else if (status === 400 && inSession) {
      // Some servers answer 400 where the specification says 404: a session check decides.
      post.undecided = true;
      this.side.checkSession((alive) => {
        if (alive) this.#settle(post, error, answer);
        else this.#disownWith(post, error, { kind: 'session_lost' });
      });
    } else {
      this.#settle(post, error, answer);
    }
  }

  #settle(post: HttpPost, error: GatewayError, answer: Buffer | null): void {
    if (!this.take(post)) return;
    if (answer === null) this.receiver.lost(post.request, error);
    else this.receiver.received(answer, post.request);
    this.settled();
  }

  /** Called before the loss is reported. */
  notResumed(status: number): void {
    if (status === 404 && this.hasSession) this.#disown({ kind: 'session_lost' });
  }

  #loseLater(request: number, error: GatewayError): void {
    this.#losses ??= new Map();
    this.#losses.set(request, error);
  }

  #disownWith(post: HttpPost, error: GatewayError, reason: ClosedReason): void {
    if (!this.take(post)) return;
    this.#loseLater(post.request, error);
    this.#disown(reason);
  }

  /** Only the first reason counts. */
  #disown(reason: ClosedReason): void {
    if (this.state !== 'open') return;
    this.closingReason ??= reason;
    this.settled();
  }

  /** Each answer extends the time for the remaining ones. */
  protected override settled(): void {
    const reason = this.closingReason;
    if (reason === null || this.state !== 'open') return;
    this.#stopSettling?.();
    this.#stopSettling = null;
    if (!this.waiting) this.end(reason);
    else this.#stopSettling = this.options.clock.after(this.limits.settleMs, () => this.end(reason));
  }

  protected stop(what: string): void {
    this.state = 'dead';
    this.#listening?.abort();
    this.#stopListeningLater?.();
    this.#stopWaiting?.();
    this.#stopSettling?.();
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const [request, error] of this.#losses ?? []) this.receiver.lost(request, error);
    this.#losses = null;
    this.loseAll(`the connection ${what} before the answer; ${MAY_HAVE_RUN}`);
    for (const { outgoing } of waiting) {
      if (outgoing.request === 0) continue;
      this.receiver.lost(outgoing.request, this.error('NOT_SENT', `the connection ${what}`));
    }
  }
}
