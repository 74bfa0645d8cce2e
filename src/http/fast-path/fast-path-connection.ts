import type { Socket } from 'node:net';
import { ByteGatherer } from '../../model/byte-gatherer.ts';
import type { BodyBudget } from '../context/body-budget.ts';
import { destroyLater } from '../context/destroy-later.ts';
import { clientErrorRefusal, rawRefusal, renderRefusal } from '../context/refusal.ts';
import type { AnswerHeads } from './answer-heads.ts';
import { type FastPathChannel, FastPathContext } from './fast-path-context.ts';
import { type FastPathHead, readFastPathHead } from './fast-path-head.ts';

export interface FastPathOptions {
  readonly encrypted: boolean;
  /** A request that is incomplete for one to two ticks goes to `node:http`, which enforces the deadlines. */
  readonly tickMs: number;
  readonly keepAliveMs: number;
  readonly maxRequests: number;
  readonly bodies: BodyBudget;
  readonly serve: (http: FastPathContext) => void;
  readonly onMalformed: () => void;
}

/** The fast path, as its connections see it. */
export interface FastPathHost {
  readonly heads: AnswerHeads;
  readonly options: FastPathOptions;
  /** Number of timer ticks so far. */
  readonly tick: number;
  /** Hands the connection over to `node:http`, with these bytes. */
  handOver(connection: FastPathConnection, bytes: Buffer | null): void;
  gone(connection: FastPathConnection): void;
}

/** A call may take long, so a body that is less than half of a larger read than this is copied out of it. */
const SMALL_READ = 4 * 1024;
/** What a client may send before its current request is answered; above it the socket is paused. */
const MAX_AHEAD = 64 * 1024;
const NOTHING = Buffer.alloc(0);

const CONNECTION = Symbol('plain connection');
interface SocketWithConnection {
  [CONNECTION]?: FastPathConnection | undefined;
}

/** A connection for as long as it brings plain requests, one at a time. Any other bytes hand it over to `node:http`. */
export class FastPathConnection implements FastPathChannel {
  readonly socket: Socket;
  /** The request being answered. */
  http: FastPathContext | null = null;
  /** No answer reaches the client any more. */
  ended = false;
  /** The tick at which the connection became idle, was opened, or began to wait for the rest of a request. */
  since: number;
  readonly #fastPath: FastPathHost;
  #served = 0;
  #reading = false;
  /** Received bytes of an incomplete request, or of requests that arrived before the current one was answered. */
  #kept: ByteGatherer | null = null;
  /** Share of the budget for request bodies that `#kept` holds. */
  #share = 0;
  /** Length of the request of which `#kept` is the beginning. */
  #awaited = 0;
  #last: FastPathHead | null = null;

  constructor(socket: Socket, fastPath: FastPathHost) {
    this.socket = socket;
    this.#fastPath = fastPath;
    this.since = fastPath.tick;
    (socket as SocketWithConnection)[CONNECTION] = this;
    socket.on('data', onData);
    socket.on('end', onEnd);
    socket.on('error', onError);
    socket.on('timeout', onTimeout);
    socket.on('close', onClose);
  }

  get heads(): AnswerHeads {
    return this.#fastPath.heads;
  }

  /** Between two requests. */
  get idle(): boolean {
    return this.#served > 0 && this.http === null && this.#kept === null;
  }

  /** Waits for a request that has not begun, or is incomplete. */
  get waiting(): boolean {
    return this.http === null && !this.idle;
  }

  take(bytes: Buffer): void {
    if (this.ended) return;
    if (this.http !== null) {
      this.#keepAhead(bytes);
      return;
    }
    if (this.#kept === null) {
      this.#read(bytes);
      return;
    }
    this.#kept.add(bytes);
    if (this.#kept.length >= this.#awaited) this.#readKept();
    else this.#hold();
  }

  /** The whole answer has been written. */
  answered(http: FastPathContext): void {
    if (this.socket.writableLength === 0) this.#finish(http);
    else this.socket.write(NOTHING, (error) => (error ? undefined : this.#finish(http)));
  }

  /**
   * Closes a connection without a request in progress. A request that is on its way is not read: `answer` says so (RFC 9110
   * §15.5.9), and a client without a request ignores it.
   */
  leave(answer: string): void {
    if (this.ended) return;
    this.ended = true;
    this.#forget();
    this.#close(answer);
  }

  /** `node:http` owns the socket from now on. */
  release(): void {
    (this.socket as SocketWithConnection)[CONNECTION] = undefined;
    this.socket.removeListener('data', onData);
    this.socket.removeListener('end', onEnd);
    this.socket.removeListener('error', onError);
    this.socket.removeListener('timeout', onTimeout);
    this.socket.removeListener('close', onClose);
  }

  handOver(): void {
    const bytes = this.#kept?.take() ?? null;
    this.#forget();
    this.#fastPath.handOver(this, bytes);
  }

  #read(bytes: Buffer): void {
    this.#reading = true;
    let at = 0;
    while (at < bytes.length && this.http === null && !this.ended) {
      const head = this.#headAt(bytes, at);
      if (head === null) {
        this.#reading = false;
        this.#fastPath.handOver(this, at === 0 ? bytes : bytes.subarray(at));
        return;
      }
      const end = at + head.text.length + head.bodyBytes;
      if (end > bytes.length) {
        this.#awaited = end - at;
        this.since = this.#fastPath.tick;
        break;
      }
      const http = new FastPathContext(this, head, ownBody(bytes, at + head.text.length, end));
      at = end;
      this.http = http;
      if (++this.#served >= this.#fastPath.options.maxRequests) http.disableKeepAlive();
      this.#fastPath.options.serve(http);
    }
    this.#reading = false;
    if (at >= bytes.length || this.ended) return;
    const rest = at === 0 ? bytes : bytes.subarray(at);
    if (this.http !== null) {
      this.#keepAhead(rest);
      return;
    }
    this.#kept = new ByteGatherer();
    this.#kept.add(rest);
    this.#hold();
  }

  #headAt(bytes: Buffer, at: number): FastPathHead | null {
    const last = this.#last;
    if (last !== null) {
      const { text } = last;
      if (bytes.length - at >= text.length && bytes.toString('latin1', at, at + text.length) === text) return last;
    }
    const head = readFastPathHead(bytes, at);
    this.#last = head;
    return head;
  }

  /** Bytes ahead of their turn hold no share of the budget: they may wait as long as the call before them lasts. */
  #keepAhead(bytes: Buffer): void {
    this.#kept ??= new ByteGatherer();
    this.#kept.add(bytes);
    if (this.#kept.length > MAX_AHEAD) this.socket.pause();
  }

  /** Without room in the budget the connection goes to `node:http`, which refuses the request in the format of its route. */
  #hold(): void {
    const share = this.#fastPath.options.bodies.grow(this.#share, this.#kept!.length, this.#awaited);
    if (share < 0) this.handOver();
    else this.#share = share;
  }

  #forget(): void {
    this.#kept = null;
    this.#fastPath.options.bodies.giveBack(this.#share);
    this.#share = 0;
  }

  #readKept(): void {
    const bytes = this.#kept!.take();
    this.#forget();
    this.#read(bytes);
  }

  #finish(http: FastPathContext): void {
    if (this.http !== http || this.ended) return;
    this.http = null;
    this.since = this.#fastPath.tick;
    if (this.socket.timeout) this.socket.setTimeout(0);
    http.flushed();
    if (!http.keepsConnection) {
      this.ended = true;
      this.#forget();
      this.#close();
      return;
    }
    if (this.#kept === null || this.#reading) return;
    if (this.socket.isPaused()) this.socket.resume();
    this.#readKept();
  }

  /** Reads and discards until the client has closed too: unread bytes would make the kernel reset the connection. */
  #close(last = ''): void {
    const { socket } = this;
    socket.end(last);
    if (socket.isPaused()) socket.resume();
    destroyLater(socket);
  }

  /** Called by the socket's `end`. As in `node:http`, a client that has closed its side gets no answer any more. */
  onEnd(): void {
    const cut = this.http === null && this.#kept !== null;
    if (this.ended) return;
    this.ended = true;
    this.#forget();
    if (cut) {
      this.#fastPath.options.onMalformed();
      this.socket.end(rawRefusal(clientErrorRefusal(undefined), renderRefusal));
    } else this.socket.destroySoon();
  }

  /** Called by the socket's `close`. */
  onClose(): void {
    this.ended = true;
    this.#forget();
    this.#fastPath.gone(this);
    const { http } = this;
    this.http = null;
    http?.dispose();
  }
}

function ownBody(bytes: Buffer, from: number, to: number): Buffer {
  const body = bytes.subarray(from, to);
  return bytes.length > SMALL_READ && 2 * body.length < bytes.length ? Buffer.from(body) : body;
}

/** Shared by all connections: five closures for each would be a large part of its memory. */
function onData(this: Socket, bytes: Buffer): void {
  (this as SocketWithConnection)[CONNECTION]!.take(bytes);
}

function onEnd(this: Socket): void {
  (this as SocketWithConnection)[CONNECTION]!.onEnd();
}

function onClose(this: Socket): void {
  (this as SocketWithConnection)[CONNECTION]!.onClose();
}

/** `close` follows. */
function onError(): void {}

function onTimeout(this: Socket): void {
  this.destroy();
}
