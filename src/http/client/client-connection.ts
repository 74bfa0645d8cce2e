import { connect, type LookupFunction, type Socket } from 'node:net';
import type { Clock } from '../../model/clock.ts';
import { writeMessage } from '../outbox.ts';
import type { ActiveRequest, RequestChannel } from './active-request.ts';
import { HttpFailure } from './http-failure.ts';
import { type PhaseTimes, timeConnect } from './phase-times.ts';
import type { ResponseHead } from './response-head.ts';
import { ResponseParser, type ResponseSink } from './response-parser.ts';
import { TurnSlice } from './turn-slice.ts';

/** The pool, as its connections see it. */
export interface ConnectionPool {
  connected(connection: ClientConnection): void;
  /** The response is complete and the connection can carry another request. */
  released(connection: ClientConnection): void;
  /** Called once, when the connection can no longer be used, connected or not. */
  gone(connection: ClientConnection, failure: HttpFailure | null): void;
  /** This connection, which had served earlier requests, took no byte of the request. */
  unsent(request: ActiveRequest): void;
}

export interface ConnectionOptions {
  readonly host: string;
  readonly port: number;
  readonly lookup: LookupFunction;
  readonly clock: Clock;
  readonly connectTimeoutMs: number;
  readonly headTimeoutMs: number;
  readonly bodyPauseMs: number;
  readonly phases: PhaseTimes | null;
}

const READ_BYTES = 64 * 1024;
/** A socket idle for longer gets a turn of the event loop to report that the server has closed it. */
const STALE_MS = 500;

/** Read buffer of all sockets. On Windows each socket has its own, because a read gets its buffer long before bytes arrive. */
const SHARED_READ = Buffer.allocUnsafeSlow(READ_BYTES);

/** One socket to the origin, with one request at a time; owned by the pool. */
export class ClientConnection implements ResponseSink, RequestChannel {
  readonly #pool: ConnectionPool;
  readonly #options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  #stopConnectTimer: () => void;
  #active: ActiveRequest | null = null;
  #served = 0;
  #written = false;
  #head: ResponseHead | null = null;
  #complete = false;
  #gone = false;
  #readBuffer: Buffer;
  #connected = false;
  #idleSince = 0;
  #stopDeadline: (() => void) | null = null;
  #headSince = 0;
  #bodySince = 0;
  /** When the request was written; 0 once its answer has begun, or if it is not measured. */
  #askedAt = 0;
  #stopTiming: (() => void) | null = null;
  readonly #slice: TurnSlice;
  /** Set by the pool: until when the connection may be reused. */
  idleUntil = 0;

  constructor(pool: ConnectionPool, options: ConnectionOptions) {
    this.#pool = pool;
    this.#options = options;
    this.#parser = new ResponseParser(this);
    const own = process.platform === 'win32' ? Buffer.allocUnsafeSlow(READ_BYTES) : SHARED_READ;
    this.#readBuffer = own;
    const socket = connect({
      host: options.host,
      port: options.port,
      lookup: options.lookup,
      autoSelectFamily: true,
      noDelay: true,
      onread: {
        // Called at first and after every read; undefined, which the types do not allow, keeps the last buffer.
        buffer: () => this.#nextReadBuffer(own) as Buffer,
        callback: (length, bytes) => {
          this.#read(length, bytes as Buffer);
          return true;
        },
      },
    });
    this.#socket = socket;
    this.#slice = new TurnSlice(
      () => options.clock.now(),
      () => socket.pause(),
      () => {
        if (!this.#gone && this.#active?.paused !== true) socket.resume();
      },
    );
    if (options.phases !== null)
      this.#stopTiming = timeConnect(socket, options.host, false, options.phases, options.clock);
    this.#stopConnectTimer = options.clock.after(options.connectTimeoutMs, () =>
      this.#fail(new HttpFailure('timeout', false, `no connection within ${options.connectTimeoutMs} ms`)),
    );
    socket.on('connect', () => {
      this.#stopConnectTimer();
      this.#connected = true;
      this.#pool.connected(this);
    });
    socket.on('end', () => this.#ended());
    socket.on('error', (error) => this.#fail(this.#failureOf(error)));
    socket.on('close', () => {
      if (!this.#gone) this.#fail(new HttpFailure('reset', this.#written, 'the connection was closed'));
    });
  }

  start(request: ActiveRequest): void {
    this.#active = request;
    request.connection = this;
    this.#written = false;
    this.#complete = false;
    this.#head = null;
    this.#parser.expect(request.isHeadRequest);
    if (this.#served > 0 && this.#options.clock.now() - this.#idleSince > STALE_MS) {
      // The second immediate runs after a poll of all sockets that began now or later.
      setImmediate(() =>
        setImmediate(() => {
          if (this.#active === request && !this.#gone) this.#write(request);
        }),
      );
    } else {
      this.#write(request);
    }
  }

  /** A request can only be ended by ending its connection. */
  abandon(): void {
    this.#active = null;
    this.#destroy(null);
  }

  discard(): void {
    this.#destroy(null);
  }

  close(): void {
    this.#fail(new HttpFailure('closed', this.#written, 'the client was closed'));
  }

  get everConnected(): boolean {
    return this.#connected;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#bodySince = this.#options.clock.now();
    if (!this.#slice.resting) this.#socket.resume();
  }

  /** The limit that `Keep-Alive: timeout=…` of the last response sets, in milliseconds; Infinity without one. */
  get keepAliveHintMs(): number {
    return this.#head?.keepAliveHintMs ?? Number.POSITIVE_INFINITY;
  }

  #write(request: ActiveRequest): void {
    const socket = this.#socket;
    const { body } = request.request;
    writeMessage(socket, request.headText, body, request.bodyBytes);
    // A request without a body may open a stream, whose first byte depends on events at the server.
    if (this.#options.phases !== null && body.length > 0) this.#askedAt = this.#options.clock.turnNow();
    // The first write is synchronous: an error by now means that the kernel took no byte.
    this.#written = socket.errored === null && !socket.destroyed;
  }

  /** Records the time to the first byte, or until the request was given up. */
  #recordFirstByte(givenUp = false): void {
    this.#options.phases?.add('firstByte', this.#options.clock.turnNow() - this.#askedAt, givenUp);
    this.#askedAt = 0;
  }

  /** Reads a large body of known length straight into its final buffer; the read cannot go beyond its end. */
  #nextReadBuffer(own: Buffer): Buffer | undefined {
    // Each address that is tried creates a new handle, which needs a buffer of its own.
    if (!this.#connected) return own;
    const wanted = this.#active?.readBuffer ?? null;
    const next = wanted !== null && wanted.length >= READ_BYTES ? wanted : own;
    if (next === this.#readBuffer) return undefined;
    this.#readBuffer = next;
    return next;
  }

  #read(length: number, bytes: Buffer): void {
    if (this.#gone) return;
    if (this.#askedAt !== 0) this.#recordFirstByte();
    this.#slice.begin(length);
    const problem = this.#parser.push(bytes, length);
    if (this.#gone) return;
    this.#slice.end();
    if (this.#complete) {
      // Only now: bytes after the response must not reach the next request.
      this.#finish(problem === null && this.#head!.keepAlive && this.#socket.writableLength === 0);
      return;
    }
    if (problem !== null) {
      this.#fail(new HttpFailure(problem.kind, this.#written, problem.message));
      return;
    }
    if (this.#parser.headStarted || this.#parser.inBody) this.#watch();
  }

  onHead(head: ResponseHead): void {
    this.#head = head;
    const { framing } = head;
    this.#active?.onHead(head.status, head.headers, framing.kind === 'length' ? framing.length : -1, true);
  }

  onBody(bytes: Buffer, from: number, to: number): void {
    this.#active?.onBody(bytes, from, to);
  }

  onEnd(): void {
    this.#complete = true;
  }

  refuse(failure: HttpFailure): void {
    this.#fail(failure);
  }

  #finish(reusable: boolean): void {
    const request = this.#active;
    this.#active = null;
    this.#stopDeadline?.();
    this.#stopDeadline = null;
    this.#headSince = 0;
    this.#served += 1;
    if (reusable) {
      // The last bytes of the body may have paused the socket: the next request needs it to read.
      if (request?.paused === true && !this.#slice.resting) this.#socket.resume();
      this.#idleSince = this.#options.clock.turnNow();
      this.#pool.released(this);
    } else {
      this.#destroy(null);
    }
    request?.onEnd();
  }

  #ended(): void {
    if (this.#gone) return;
    if (this.#active !== null && this.#parser.eof() && this.#complete) {
      this.#finish(false);
      return;
    }
    this.#fail(new HttpFailure('reset', this.#written, 'the server closed the connection before the answer was whole'));
  }

  #fail(failure: HttpFailure): void {
    if (this.#gone) return;
    const request = this.#active;
    this.#active = null;
    this.#destroy(failure);
    if (request === null) return;
    failure.reusedConnection = this.#served > 0;
    if (failure.reusedConnection && !failure.sent && failure.kind === 'reset') this.#pool.unsent(request);
    else request.onError(failure);
  }

  #destroy(failure: HttpFailure | null): void {
    if (this.#gone) return;
    this.#gone = true;
    if (this.#askedAt !== 0) this.#recordFirstByte(true);
    this.#parser.stop();
    this.#stopTiming?.();
    this.#stopConnectTimer();
    this.#stopDeadline?.();
    this.#stopDeadline = null;
    this.#socket.destroy();
    this.#pool.gone(this, failure);
  }

  /** Sets the deadline of a response that has begun. At most one timer per response. */
  #watch(): void {
    const now = this.#options.clock.now();
    if (this.#parser.headStarted) {
      if (this.#headSince === 0) this.#headSince = now;
    } else {
      this.#headSince = 0;
      if (this.#bodyPauseMs() === 0) return;
      this.#bodySince = now;
    }
    if (this.#stopDeadline === null) this.#arm(this.#headSince > 0 ? this.#options.headTimeoutMs : this.#bodyPauseMs());
  }

  #arm(delayMs: number): void {
    this.#stopDeadline = this.#options.clock.after(Math.max(1, delayMs), () => {
      this.#stopDeadline = null;
      const request = this.#active;
      if (request === null) return;
      const now = this.#options.clock.now();
      if (this.#headSince > 0) {
        const left = this.#headSince + this.#options.headTimeoutMs - now;
        if (left > 0) this.#arm(left);
        else this.#fail(new HttpFailure('timeout', true, 'the head of the answer was begun and not finished'));
        return;
      }
      const limit = this.#bodyPauseMs();
      if (limit === 0 || !this.#parser.inBody) return;
      const left = request.paused ? limit : this.#bodySince + limit - now;
      if (left > 0) this.#arm(left);
      else this.#fail(new HttpFailure('timeout', true, `the body of the answer paused for ${limit} ms`));
    });
  }

  #bodyPauseMs(): number {
    const chosen = this.#active?.request.bodyPauseMs;
    if (chosen !== undefined) return chosen;
    return this.#head?.headers.mediaType === 'text/event-stream' ? 0 : this.#options.bodyPauseMs;
  }

  #failureOf(error: NodeJS.ErrnoException): HttpFailure {
    if (this.#connected) return new HttpFailure('reset', this.#written, reasonOf(error), error);
    const dns = error.syscall === 'getaddrinfo' || error.code === 'ENOTFOUND' || error.code === 'EAI_AGAIN';
    const kind = dns ? 'dns' : error.code === 'ETIMEDOUT' ? 'timeout' : 'refused';
    return new HttpFailure(kind, false, reasonOf(error), error);
  }
}

/** Several failed addresses give an AggregateError without a message of its own. */
function reasonOf(error: NodeJS.ErrnoException): string {
  if (error instanceof AggregateError) return error.errors.map((each) => String(each?.message ?? each)).join('; ');
  return error.message;
}
