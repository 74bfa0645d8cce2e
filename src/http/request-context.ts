import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { unmapped } from '../model/host-address.ts';
import { claim, giveBack } from '../model/lent-memory.ts';
import type { Admission } from './admission.ts';
import { BodyReader, bodyRefusal } from './body-reader.ts';
import { type EdgeGate, lastOf } from './edge-gate.ts';
import { type Refusal, type RefusalRenderer, rawRefusal, renderRefusal } from './refusal.ts';
import { SseWriter } from './sse-writer.ts';
import type { StreamWheel } from './stream-wheel.ts';

const EMPTY = Buffer.alloc(0);
/** A body up to this size is not worth ending the connection for: Node reads it to nobody, in `requestTimeout`. */
const SMALL_REST_BYTES = 64 * 1024;
/** Up to here a copy is cheaper than one more buffer to write. */
const MAX_STRING = 4096;
/** How long a connection that is being refused may still send before it is cut, so that the answer gets through. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 1024 * 1024;

const CONTEXT = Symbol('request context');
interface Carrier {
  [CONTEXT]?: RequestContext;
}

/** What the listener gives every request's context. */
export interface ContextParts {
  readonly wheel: StreamWheel;
  readonly maxBodyBytes: number;
  /** How long a client may take nothing of its answer. */
  readonly stallMs: number;
}

/**
 * One request on its way to its one answer: what handlers get. Exactly one of `answer`, `json`, `empty`, `refuse`
 * or `openSse` ends it; later ones are ignored, so that a late result cannot meet a connection that moved on.
 */
export class RequestContext {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** As it came, without the query; never decoded. */
  readonly path: string;
  /** Without the question mark; empty for none. */
  readonly query: string;
  /** What stands for the `{name}` segment of the route; empty without one. */
  param = '';
  /** Look of refusals on this route. */
  render: RefusalRenderer = renderRefusal;
  maxBodyBytes: number;
  /** The client waits for `100 Continue` before it sends the body. */
  expectsContinue = false;
  readonly #gate: EdgeGate;
  readonly #wheel: StreamWheel;
  readonly #stallMs: number;
  #answered = false;
  #bodyRead = false;
  #gone: (() => void) | null = null;
  #admission: Admission | null = null;
  #ticket = 0;

  constructor(request: IncomingMessage, response: ServerResponse, gate: EdgeGate, parts: ContextParts) {
    this.request = request;
    this.response = response;
    const url = request.url ?? '';
    const mark = url.indexOf('?');
    this.path = mark < 0 ? url : url.slice(0, mark);
    this.query = mark < 0 ? '' : url.slice(mark + 1);
    this.#gate = gate;
    this.#wheel = parts.wheel;
    this.#stallMs = parts.stallMs;
    this.maxBodyBytes = parts.maxBodyBytes;
    (request.socket as Carrier)[CONTEXT] = this;
  }

  /** Was let in with this ticket, which goes back with the answer. False when the client has gone meanwhile. */
  admitted(admission: Admission, ticket: number): boolean {
    if (this.response.destroyed) {
      admission.leave(ticket);
      return false;
    }
    this.#admission = admission;
    this.#ticket = ticket;
    return true;
  }

  /** The context of the request that came last on a connection. */
  static of(socket: Socket): RequestContext | undefined {
    return (socket as Carrier)[CONTEXT];
  }

  get method(): string {
    return this.request.method ?? '';
  }

  /** A request header by its name in lower case. Those that decide anything were refused if they came twice. */
  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  get answered(): boolean {
    return this.#answered;
  }

  /** A body is being received for this request. */
  get readingBody(): boolean {
    return !this.#answered && !this.#bodyRead && !this.request.complete;
  }

  /** Of the client; told by the proxy nearest to us where that one is trusted. */
  get remoteAddress(): string {
    const forwarded = this.request.headers['x-forwarded-for'];
    if (forwarded !== undefined && this.#gate.trusts(this.request)) return unmapped(lastOf(forwarded));
    return unmapped(this.request.socket.remoteAddress ?? '');
  }

  /** `https://host:port` as the client sees us. The host was checked. */
  get publicOrigin(): string {
    const forwarded = this.request.headers['x-forwarded-proto'];
    const encrypted = 'encrypted' in this.request.socket;
    const told = forwarded !== undefined && this.#gate.trusts(this.request) ? lastOf(forwarded).toLowerCase() : '';
    const scheme = told === 'http' || told === 'https' ? told : encrypted ? 'https' : 'http';
    return `${scheme}://${this.#gate.authority(this.request) ?? ''}`;
  }

  /**
   * Reads a JSON body, whole. Media type, coding and length are judged before the first byte is read (and before
   * `100 Continue`); what is wrong is answered here and `onBody` never called.
   */
  readJson(onBody: (body: Buffer) => void): void {
    if (this.#answered) return;
    const refusal = bodyRefusal(this.request, this.maxBodyBytes);
    if (refusal !== null) {
      this.refuse(refusal);
      return;
    }
    if (this.expectsContinue) this.response.writeContinue();
    new BodyReader(this.request, this.maxBodyBytes, (body, wrong) => {
      if (this.#answered) return;
      if (wrong !== null) {
        this.refuse(wrong);
        return;
      }
      this.#bodyRead = true;
      onBody(body ?? EMPTY);
    });
  }

  /** Answers with a whole body. The parts are written as they are, in one go. */
  answer(status: number, contentType: string, body: Buffer | readonly Buffer[], headers: readonly string[] = []): void {
    if (this.#answered) return;
    this.#begin();
    const { response } = this;
    if (Buffer.isBuffer(body)) {
      response.writeHead(status, ['Content-Type', contentType, 'Content-Length', String(body.length), ...headers]);
      // As one string with its head, a short body is one buffer to write; the bytes are the same.
      if (body.length <= MAX_STRING) response.end(body.toString('latin1'), 'latin1');
      else response.end(body);
    } else {
      let length = 0;
      for (const part of body) length += part.length;
      response.writeHead(status, ['Content-Type', contentType, 'Content-Length', String(length), ...headers]);
      const last = body.length - 1;
      for (let i = 0; i < last; i++) response.write(body[i]!);
      response.end(body[last] ?? EMPTY);
    }
    // A client that does not read its answer is let go; Node's timer sees every byte the kernel takes as progress.
    if (response.writableLength > 0) response.socket?.setTimeout(this.#stallMs);
  }

  /**
   * Answers like `answer`, with parts that nobody needs afterwards: what of them is lent memory goes back once the
   * kernel has taken the last byte.
   */
  answerWithLent(status: number, contentType: string, parts: readonly Buffer[]): void {
    const { request, response } = this;
    const lent = this.#answered ? undefined : parts.find(claim);
    this.answer(status, contentType, parts);
    if (lent === undefined) return;
    response.once('finish', () => {
      // A connection that broke says `finish` too, and what it was still writing may not be let go of.
      if (response.errored === null && !request.socket.destroyed) giveBack(lent);
    });
  }

  json(status: number, text: string, headers: readonly string[] = []): void {
    this.answer(status, 'application/json', Buffer.from(text), headers);
  }

  /** An answer without a body, such as 202. */
  empty(status: number, headers: readonly string[] = []): void {
    if (this.#answered) return;
    this.#begin();
    this.response.writeHead(status, status === 204 ? [...headers] : ['Content-Length', '0', ...headers]);
    this.response.end();
  }

  /** Answers with an error in the route's own shape. Where a large body is still coming, the connection ends. */
  refuse(refusal: Refusal): void {
    if (this.#answered) return;
    if (this.request.complete || (!this.expectsContinue && this.#restIsSmall())) {
      this.json(refusal.status, this.render(refusal), refusal.headers ?? []);
      return;
    }
    this.refuseAndClose(refusal);
  }

  /** For connections on which the next request cannot be found, or is not wanted. */
  refuseAndClose(refusal: Refusal): void {
    if (this.#answered) return;
    this.#begin();
    if (this.response.socket === null) {
      // Pipelined behind an answer that is not out yet.
      this.response.shouldKeepAlive = false;
      this.response.writeHead(refusal.status, ['Content-Type', 'application/json', ...(refusal.headers ?? [])]);
      this.response.end(this.render(refusal));
      return;
    }
    this.#refuseAndLinger(refusal);
  }

  /** Begins an event stream as the answer. */
  openSse(headers: readonly string[] = []): SseWriter {
    this.#begin();
    return new SseWriter(this.response, this.#wheel, headers);
  }

  /** Sets what is called, once, when the client goes away before its answer is complete. Null to unset. */
  whenGone(task: (() => void) | null): void {
    if (this.#gone === null && task !== null) {
      (this.response as Carrier)[CONTEXT] = this;
      this.response.on('close', onResponseClose);
    }
    this.#gone = task;
  }

  /** From here on the request is no load: it has its answer, or a stream that may last. */
  #begin(): void {
    this.#answered = true;
    this.#admission?.leave(this.#ticket);
    this.#admission = null;
  }

  /** Called by the response's `close`. */
  closed(): void {
    const task = this.#gone;
    this.#gone = null;
    if (!this.response.writableFinished) task?.();
  }

  #restIsSmall(): boolean {
    const { headers } = this.request;
    return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= SMALL_REST_BYTES;
  }

  /** A closed socket with unread bytes in it is reset, and the reset can overtake the answer: reads on for a moment. */
  #refuseAndLinger(refusal: Refusal): void {
    const { request } = this;
    const socket = request.socket;
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    timer.unref();
    let more = 0;
    request.on('data', (chunk: Buffer) => {
      more += chunk.length;
      if (more > LINGER_BYTES) socket.destroy();
    });
    request.on('end', () => socket.destroySoon());
    socket.once('close', () => clearTimeout(timer));
    socket.end(rawRefusal(refusal, this.render));
  }
}

function onResponseClose(this: ServerResponse): void {
  (this as Carrier)[CONTEXT]?.closed();
}
