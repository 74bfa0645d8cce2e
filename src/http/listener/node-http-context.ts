import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { BodyBudget } from '../context/body-budget.ts';
import { destroyLater } from '../context/destroy-later.ts';
import type { BodyCallback, HttpContext, HttpContextWatcher } from '../context/http-context.ts';
import { NO_SNIFFING, type Refusal, type RefusalRenderer, rawRefusal } from '../context/refusal.ts';
import { announcedLength, BodyReader } from './body-reader.ts';
import { repeatedHeader } from './request-headers.ts';

const EMPTY = Buffer.alloc(0);
/** Up to this size a copy is cheaper than another buffer to write. */
const MAX_STRING = 4096;
/** What a refused connection may still send before it is closed, so that the client gets the answer. */
const LINGER_BYTES = 1024 * 1024;

const CONTEXT = Symbol('context');
interface RequestWithContext {
  [CONTEXT]?: NodeHttpContext;
}

/** A request that `node:http` has parsed, and its answer. */
export class NodeHttpContext implements HttpContext {
  readonly expectsContinue: boolean;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  #watcher: HttpContextWatcher | null = null;

  constructor(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean) {
    this.#request = request;
    this.#response = response;
    this.expectsContinue = expectsContinue;
  }

  get method(): string {
    return this.#request.method ?? '';
  }

  get target(): string {
    return this.#request.url ?? '';
  }

  get headers(): IncomingHttpHeaders {
    return this.#request.headers;
  }

  get socket(): Socket {
    return this.#request.socket;
  }

  get headerLines(): number {
    return this.#request.rawHeaders.length / 2;
  }

  get repeatedHeader(): string | null {
    return repeatedHeader(this.#request);
  }

  get complete(): boolean {
    return this.#request.complete;
  }

  get headersSent(): boolean {
    return this.#response.headersSent;
  }

  get finished(): boolean {
    return this.#response.writableFinished;
  }

  get destroyed(): boolean {
    return this.#response.destroyed;
  }

  get pendingBytes(): number {
    return this.#response.writableLength;
  }

  get queuedBytes(): number {
    const { writableLength, socket } = this.#response;
    return writableLength - (socket?.writableLength ?? 0);
  }

  watch(watcher: HttpContextWatcher): void {
    this.#watcher = watcher;
    if ((this.#response as RequestWithContext)[CONTEXT] !== undefined) return;
    (this.#response as RequestWithContext)[CONTEXT] = this;
    this.#response.on('close', onResponseClose);
  }

  disableKeepAlive(): void {
    this.#response.shouldKeepAlive = false;
  }

  send(status: number, contentType: string | null, body: readonly Buffer[], headers: readonly string[]): void {
    const response = this.#response;
    if (contentType === null) {
      const length = status === 204 ? [] : ['Content-Length', '0'];
      response.writeHead(status, [...length, ...NO_SNIFFING, ...headers]);
      response.end();
      return;
    }
    let length = 0;
    for (const part of body) length += part.length;
    const framing = ['Content-Type', contentType, 'Content-Length', String(length)];
    response.writeHead(status, [...framing, ...NO_SNIFFING, ...headers]);
    const last = body.length - 1;
    // In one string with its head, a short body is one buffer to write; the bytes are the same.
    if (last === 0 && length <= MAX_STRING) response.end(body[0]!.toString('latin1'), 'latin1');
    else {
      for (let i = 0; i < last; i++) response.write(body[i]!);
      response.end(body[last] ?? EMPTY);
    }
  }

  sendAndClose(refusal: Refusal, render: RefusalRenderer): void {
    const response = this.#response;
    if (response.socket === null) {
      // Pipelined behind an answer that is not sent yet.
      this.disableKeepAlive();
      const type = ['Content-Type', 'application/json'];
      response.writeHead(refusal.status, [...type, ...NO_SNIFFING, ...(refusal.headers ?? [])]);
      response.end(render(refusal));
      return;
    }
    this.#linger();
    this.socket.end(rawRefusal(refusal, render));
  }

  whenSent(task: () => void): void {
    this.#response.once('finish', () => {
      // A connection that broke emits `finish` too.
      if (this.#response.errored === null && !this.socket.destroyed) task();
    });
  }

  readBody(maxBytes: number, budget: BodyBudget, done: BodyCallback): void {
    if (!budget.hasCapacity(announcedLength(this.headers))) {
      done(null, budget.refuse());
      return;
    }
    if (this.expectsContinue) this.#response.writeContinue();
    new BodyReader(this.#request, maxBytes, budget, done);
  }

  open(headers: readonly string[]): void {
    this.#response.writeHead(200, [...NO_SNIFFING, ...headers]);
    this.#response.flushHeaders();
  }

  write(parts: readonly Buffer[]): void {
    const response = this.#response;
    if (parts.length === 1) {
      response.write(parts[0]!);
      return;
    }
    // One chunk of the transfer coding around all parts.
    response.cork();
    for (const part of parts) if (part.length > 0) response.write(part);
    response.uncork();
  }

  end(): void {
    this.#response.end();
  }

  destroy(): void {
    this.#response.destroy();
  }

  limitStall(stallMs: number): void {
    // Node's timer counts every byte that the kernel takes as progress, and ends with the answer.
    this.#response.socket?.setTimeout(stallMs);
  }

  /** Called by the response's `close`. */
  closed(): void {
    this.#watcher?.closed();
  }

  /** Reads on for a moment: closing a socket with unread bytes resets it, and the reset can overtake the answer. */
  #linger(): void {
    const { socket } = this;
    destroyLater(socket);
    let more = 0;
    this.#request.on('data', (chunk: Buffer) => {
      more += chunk.length;
      if (more > LINGER_BYTES) socket.destroy();
    });
    this.#request.on('end', () => socket.destroySoon());
  }
}

/** Shared by all responses: a closure for each open stream would be a large part of its memory. */
function onResponseClose(this: ServerResponse): void {
  (this as RequestWithContext)[CONTEXT]?.closed();
}
