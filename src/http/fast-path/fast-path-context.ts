import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { BodyBudget } from '../context/body-budget.ts';
import type { BodyCallback, HttpContext, HttpContextWatcher } from '../context/http-context.ts';
import type { Refusal, RefusalRenderer } from '../context/refusal.ts';
import { PACED_BYTES, PacedWrite, writeMessage, writePiece } from '../outbox.ts';
import type { AnswerHeads } from './answer-heads.ts';
import type { FastPathHead } from './fast-path-head.ts';

const NOTHING: readonly Buffer[] = [];
const CRLF = Buffer.from('\r\n');
const LAST_CHUNK = '0\r\n\r\n';

/** The connection, as the request on it sees it. */
export interface FastPathChannel {
  readonly socket: Socket;
  readonly heads: AnswerHeads;
  /** The request being answered. */
  readonly http: FastPathContext | null;
  /** No answer reaches the client any more. */
  readonly ended: boolean;
  /** The whole answer has been written. */
  answered(http: FastPathContext): void;
}

/** A plain request, received completely, and its answer. */
export class FastPathContext implements HttpContext {
  readonly expectsContinue = false;
  readonly complete = true;
  readonly repeatedHeader = null;
  headersSent = false;
  finished = false;
  readonly #connection: FastPathChannel;
  readonly #head: FastPathHead;
  readonly #body: Buffer;
  #keep = true;
  #ended = false;
  #paced: PacedWrite | null = null;
  #watcher: HttpContextWatcher | null = null;
  #sent: (() => void) | null = null;

  constructor(connection: FastPathChannel, head: FastPathHead, body: Buffer) {
    this.#connection = connection;
    this.#head = head;
    this.#body = body;
  }

  get method(): string {
    return this.#head.method;
  }

  get target(): string {
    return this.#head.target;
  }

  get headers(): Readonly<IncomingHttpHeaders> {
    return this.#head.headers;
  }

  get headerLines(): number {
    return this.#head.headerLines;
  }

  get socket(): Socket {
    return this.#connection.socket;
  }

  get destroyed(): boolean {
    return this.#connection.http !== this || this.#connection.ended;
  }

  get pendingBytes(): number {
    return this.#connection.http === this ? this.socket.writableLength + (this.#paced?.left ?? 0) : 0;
  }

  /** The fast path answers requests in order, so no answer waits for an earlier one. */
  get queuedBytes(): number {
    return 0;
  }

  /** Whether another request may follow on the connection. */
  get keepsConnection(): boolean {
    return this.#keep;
  }

  watch(watcher: HttpContextWatcher): void {
    this.#watcher = watcher;
  }

  disableKeepAlive(): void {
    this.#keep = false;
  }

  send(status: number, contentType: string | null, body: readonly Buffer[], headers: readonly string[]): void {
    if (this.headersSent || this.destroyed) return;
    this.headersSent = true;
    let length = 0;
    for (const part of body) length += part.length;
    const head = this.#connection.heads.whole(status, contentType, length, headers, this.#keep);
    if (length >= PACED_BYTES) {
      this.socket.cork();
      this.socket.write(head, 'latin1');
      this.#paced = new PacedWrite(this.socket, body, length, () => this.#end());
      this.socket.uncork();
    } else {
      writeMessage(this.socket, head, body, length);
      this.#end();
    }
  }

  sendAndClose(refusal: Refusal, render: RefusalRenderer): void {
    this.disableKeepAlive();
    this.send(refusal.status, 'application/json', [Buffer.from(render(refusal))], refusal.headers ?? []);
  }

  whenSent(task: () => void): void {
    if (this.finished) task();
    else this.#sent = task;
  }

  /** The body is complete and holds no share of the budget any more. */
  readBody(_maxBytes: number, _budget: BodyBudget, done: BodyCallback): void {
    done(this.#body, null);
  }

  open(headers: readonly string[]): void {
    if (this.headersSent || this.destroyed) return;
    this.headersSent = true;
    writePiece(this.socket, this.#connection.heads.chunked(headers, this.#keep), NOTHING, 0);
  }

  write(parts: readonly Buffer[]): void {
    if (this.#ended || this.destroyed) return;
    let length = 0;
    for (const part of parts) length += part.length;
    if (length > 0) writePiece(this.socket, `${length.toString(16)}\r\n`, [...parts, CRLF], length + CRLF.length);
  }

  end(): void {
    if (this.#ended || this.destroyed) return;
    this.socket.write(LAST_CHUNK, 'latin1');
    this.#end();
  }

  destroy(): void {
    if (!this.destroyed) this.socket.destroy();
  }

  limitStall(stallMs: number): void {
    if (this.#connection.http === this) this.socket.setTimeout(stallMs);
  }

  /** The kernel has taken the whole answer. */
  flushed(): void {
    this.finished = true;
    this.#sent?.();
    this.dispose();
  }

  /** Ends the context: its answer was sent, or its connection is gone. */
  dispose(): void {
    const watcher = this.#watcher;
    this.#watcher = null;
    this.#sent = null;
    watcher?.closed();
  }

  #end(): void {
    this.#ended = true;
    this.#connection.answered(this);
  }
}
