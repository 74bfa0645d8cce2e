import type { IncomingHttpHeaders } from 'node:http';
import { claim, returnClaimed } from '../../model/pooled-buffers.ts';
import { type BodyBudget, SMALL_BODY_BYTES } from '../context/body-budget.ts';
import type { HttpContext, HttpContextWatcher } from '../context/http-context.ts';
import { type Refusal, type RefusalRenderer, renderRefusal } from '../context/refusal.ts';
import { SseWriter } from '../sse/sse-writer.ts';
import type { StreamWheel } from '../sse/stream-wheel.ts';
import { bodyRefusal, FORM_BODY } from './body-reader.ts';
import type { ConcurrencyLimiter } from './concurrency-limiter.ts';
import { lastOf, type RequestGate } from './request-gate.ts';

const EMPTY = Buffer.alloc(0);
const NONE: readonly string[] = [];

/** Dependencies that the listener gives to every request context. */
export interface RequestContextDeps {
  readonly wheel: StreamWheel;
  readonly maxBodyBytes: number;
  /** Budget for all request bodies that are being received. */
  readonly bodies: BodyBudget;
  /** How long a client may take nothing of its answer. */
  readonly stallMs: number;
}

/**
 * One request and its only answer, for handlers. `answer`, `json`, `empty`, `refuse` and `openSse` each give the answer;
 * later calls are ignored.
 */
export class RequestContext implements HttpContextWatcher {
  /** As received, without the query; never decoded. */
  readonly path: string;
  /** Without the question mark; empty for none. */
  readonly query: string;
  /** The value of the `{name}` segment of the route; empty without one. */
  param = '';
  /** How refusals on this route are rendered. */
  render: RefusalRenderer = renderRefusal;
  maxBodyBytes: number;
  /** Headers of every kind of answer, name and value alternating. */
  answerHeaders: readonly string[] = NONE;
  readonly #http: HttpContext;
  readonly #gate: RequestGate;
  readonly #wheel: StreamWheel;
  readonly #stallMs: number;
  readonly #bodies: BodyBudget;
  #answered = false;
  #bodyRead = false;
  #watched = false;
  #gone: (() => void) | null = null;
  #stream: SseWriter | null = null;
  #limiter: ConcurrencyLimiter | null = null;
  #ticket = 0;

  constructor(http: HttpContext, gate: RequestGate, parts: RequestContextDeps) {
    this.#http = http;
    const url = http.target;
    const mark = url.indexOf('?');
    this.path = mark < 0 ? url : url.slice(0, mark);
    this.query = mark < 0 ? '' : url.slice(mark + 1);
    this.#gate = gate;
    this.#wheel = parts.wheel;
    this.#stallMs = parts.stallMs;
    this.#bodies = parts.bodies;
    this.maxBodyBytes = parts.maxBodyBytes;
  }

  /** Stores the ticket of admission, to be returned with the answer. False if the client has gone meanwhile. */
  admitted(limiter: ConcurrencyLimiter, ticket: number): boolean {
    if (this.#http.destroyed) {
      limiter.leave(ticket);
      return false;
    }
    this.#limiter = limiter;
    this.#ticket = ticket;
    return true;
  }

  get method(): string {
    return this.#http.method;
  }

  /** Names in lower case; read only. Security-relevant headers that were repeated have been refused. */
  get headers(): Readonly<IncomingHttpHeaders> {
    return this.#http.headers;
  }

  /** A request header by its name in lower case. */
  header(name: string): string | undefined {
    const value = this.#http.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /** Whether a body is being received for this request. */
  get readingBody(): boolean {
    return !this.#answered && !this.#bodyRead && !this.#http.complete;
  }

  /** Whether the kernel has not taken the whole answer yet. */
  get unfinished(): boolean {
    return !this.#http.finished;
  }

  /** `https://host:port` as the client sees the gateway. The host was checked. */
  get publicOrigin(): string {
    const encrypted = 'encrypted' in this.#http.socket;
    const scheme = this.#forwardedScheme ?? (encrypted ? 'https' : 'http');
    return `${scheme}://${this.#gate.authority(this.#http) ?? ''}`;
  }

  /** `publicOrigin` if a trusted proxy names the scheme, else empty: behind another proxy the public address is not known. */
  get forwardedOrigin(): string {
    return this.#forwardedScheme === null ? '' : this.publicOrigin;
  }

  get #forwardedScheme(): 'http' | 'https' | null {
    const forwarded = this.headers['x-forwarded-proto'];
    const scheme = forwarded !== undefined && this.#gate.trusts(this.#http) ? lastOf(forwarded).toLowerCase() : '';
    return scheme === 'http' || scheme === 'https' ? scheme : null;
  }

  /**
   * Reads a whole JSON body. Checks media type, coding and length before `100 Continue`; answers faults itself, without a
   * call of `onBody`.
   */
  readJson(onBody: (body: Buffer) => void): void {
    if (!this.#answered) this.#read(bodyRefusal(this.headers, this.maxBodyBytes), onBody);
  }

  /** As `readJson`, for the body that a form sends. */
  readForm(onForm: (form: URLSearchParams) => void): void {
    const refusal = bodyRefusal(this.headers, this.maxBodyBytes, FORM_BODY);
    // A form without fields has no body.
    if (this.headers['content-length'] === '0') onForm(new URLSearchParams());
    else this.#read(refusal, (body) => onForm(new URLSearchParams(body.toString())));
  }

  #read(refusal: Refusal | null, onBody: (body: Buffer) => void): void {
    if (refusal !== null) {
      this.refuse(refusal);
      return;
    }
    this.#http.readBody(this.maxBodyBytes, this.#bodies, (body, wrong) => {
      if (this.#answered) return;
      if (wrong !== null) {
        this.refuse(wrong);
        return;
      }
      this.#bodyRead = true;
      onBody(body ?? EMPTY);
    });
  }

  /** Answers with a whole body. Writes the parts unchanged, together. */
  answer(status: number, contentType: string, body: Buffer | readonly Buffer[], headers = NONE): void {
    if (this.#answered) return;
    this.#begin();
    this.#http.send(status, contentType, Buffer.isBuffer(body) ? [body] : body, this.#withOwn(headers));
    this.#limitStall();
  }

  /** As `answer`, with parts that no code needs afterwards: pooled memory is returned when the kernel has taken them. */
  answerWithPooled(status: number, contentType: string, parts: readonly Buffer[]): void {
    const pooled = this.#answered ? undefined : parts.find(claim);
    this.answer(status, contentType, parts);
    if (pooled !== undefined) this.#http.whenSent(() => returnClaimed(pooled));
  }

  json(status: number, text: string, headers: readonly string[] = NONE): void {
    this.answer(status, 'application/json', Buffer.from(text), headers);
  }

  /** An answer without a body, such as 202. */
  empty(status: number, headers: readonly string[] = NONE): void {
    if (this.#answered) return;
    this.#begin();
    this.#http.send(status, null, [], this.#withOwn(headers));
    this.#limitStall();
  }

  /** Answers with an error in the format of the route. Ends the connection if a large body is still arriving. */
  refuse(refusal: Refusal): void {
    if (this.#answered) return;
    if (this.#http.complete || (!this.#http.expectsContinue && this.#restIsSmall())) {
      this.json(refusal.status, this.render(refusal), refusal.headers ?? NONE);
      return;
    }
    this.refuseAndClose(refusal);
  }

  /** For connections on which the next request cannot be found, or is not wanted. */
  refuseAndClose(refusal: Refusal): void {
    if (this.#answered) return;
    this.#begin();
    this.#http.sendAndClose(refusal, this.render);
    this.#limitStall();
  }

  /**
   * For an unexpected error. Ends the connection of an answer that has begun; a complete answer and later requests on the
   * connection are not affected.
   */
  fail(refusal: Refusal): void {
    if (!this.#answered) this.refuse(refusal);
    else if (!this.#http.finished) this.#http.socket.destroySoon();
  }

  /** Begins an event stream as the answer. */
  openSse(): SseWriter {
    this.#begin();
    this.#watch();
    this.#stream = new SseWriter(this.#http, this.#wheel, this.answerHeaders);
    return this.#stream;
  }

  /** Sets the function that is called, once, if the client disconnects before its answer is complete. Null to unset. */
  onDisconnect(task: (() => void) | null): void {
    this.#gone = task;
    if (task !== null) this.#watch();
  }

  /** Called by the `HttpContext`. */
  closed(): void {
    const task = this.#gone;
    this.#gone = null;
    if (!this.#http.finished) task?.();
    this.#stream?.gone();
  }

  /** Disconnects a client that does not read its answer, however short that is. */
  #limitStall(): void {
    if (this.#http.pendingBytes > 0) this.#http.limitStall(this.#stallMs);
  }

  #watch(): void {
    if (this.#watched) return;
    this.#watched = true;
    this.#http.watch(this);
  }

  /** From now on the request is no load: it has its answer, or a stream that may last. */
  #begin(): void {
    this.#answered = true;
    this.#limiter?.leave(this.#ticket);
    this.#limiter = null;
  }

  #withOwn(headers: readonly string[]): readonly string[] {
    return this.answerHeaders.length === 0 ? headers : [...this.answerHeaders, ...headers];
  }

  /** A small rest is read and dropped, instead of ending the connection. */
  #restIsSmall(): boolean {
    const { headers } = this;
    return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= SMALL_BODY_BYTES;
  }
}
