import type { LookupFunction } from 'node:net';
import { type Clock, systemClock } from '../../model/clock.ts';
import { bareHost } from '../../model/host-address.ts';
import { fewDescriptorsLeft } from '../descriptor-limit.ts';
import { ActiveRequest } from './active-request.ts';
import { ClientConnection, type ConnectionOptions, type ConnectionPool } from './client-connection.ts';
import type { ClientRequest, HttpClientPort, HttpRequest, ResponseHandler } from './client-port.ts';
import { encodeHeaders } from './header-block.ts';
import { HttpFailure } from './http-failure.ts';
import type { PhaseTimes } from './phase-times.ts';
import { Resolver } from './resolver.ts';

export type * from './client-port.ts';
export { HeaderBlock } from './header-block.ts';
export { HttpFailure, type HttpFailureKind } from './http-failure.ts';
export type { ResponseHeaders } from './response-headers.ts';

/** Options of all clients. */
export interface CommonOptions {
  readonly clock?: Clock;
  readonly connectTimeoutMs?: number;
  readonly headTimeoutMs?: number;
  readonly bodyPauseMs?: number;
  /** Records the duration of the phases of requests; null for none. */
  readonly phases?: PhaseTimes | null;
}

export interface HttpClientOptions extends CommonOptions {
  readonly lookup?: LookupFunction;
  /** Sockets at the same time; further requests wait. A stream holds a socket. Default 65 536: descriptors run out first. */
  readonly maxSockets?: number;
  /** How long an idle socket is kept; less if the server says so. Default 4 s, below what servers commonly allow. */
  readonly idleMs?: number;
}

/** How often a request moves to another connection because a reused one was dead before it took a byte (F24). */
const MAX_UNSENT = 2;
/** Tolerance for a server whose clock for idle connections runs ahead. */
const HINT_MARGIN_MS = 1_000;

const NO_DESCRIPTORS = 'the system allows no further open files (ulimit -n)';
const PATH = /^\/[\x21-\x7e]*$/;
const METHOD = /^[A-Z]{1,16}$/;

/**
 * The HTTP/1.1 client of one plain-HTTP origin: a pool of connections, of which the last used is reused first. Never
 * repeats a request of which a byte was sent (`HttpFailure.sent`).
 */
export class HttpClient implements HttpClientPort, ConnectionPool {
  readonly #options: ConnectionOptions;
  readonly #clock: Clock;
  readonly #maxSockets: number;
  readonly #idleMs: number;
  readonly #host: string;
  readonly #all = new Set<ClientConnection>();
  readonly #idle: ClientConnection[] = [];
  readonly #waiting = new Set<ActiveRequest>();
  #connecting = 0;
  #stopSweep: (() => void) | null = null;
  #closed = false;
  /** Request line and Host header of the last request, and what they were composed from. */
  #line = '';
  #lineMethod = '';
  #linePath = '';

  constructor(origin: URL, options: HttpClientOptions = {}) {
    if (origin.protocol !== 'http:') throw new TypeError('HttpClient speaks plain http only');
    this.#host = origin.host;
    this.#clock = options.clock ?? systemClock;
    this.#maxSockets = options.maxSockets ?? 65_536;
    this.#idleMs = options.idleMs ?? 4_000;
    this.#options = {
      host: bareHost(origin.hostname),
      port: origin.port === '' ? 80 : Number(origin.port),
      lookup: options.lookup ?? new Resolver({ clock: this.#clock }).lookup,
      clock: this.#clock,
      connectTimeoutMs: options.connectTimeoutMs ?? 5_000,
      headTimeoutMs: options.headTimeoutMs ?? 10_000,
      bodyPauseMs: options.bodyPauseMs ?? 30_000,
      phases: options.phases ?? null,
    };
  }

  request(request: HttpRequest, handler: ResponseHandler): ClientRequest {
    let bodyBytes = 0;
    for (const part of request.body) bodyBytes += part.length;
    let active: ActiveRequest;
    try {
      active = new ActiveRequest(request, handler, this.#headOf(request, bodyBytes), bodyBytes, this.#waiting);
    } catch (error) {
      active = new ActiveRequest(request, handler, '', 0, this.#waiting);
      const failure = new HttpFailure('malformed', false, (error as Error).message, error);
      process.nextTick(() => active.onError(failure));
      return active;
    }
    if (this.#closed) process.nextTick(() => active.onError(closedFailure()));
    else this.#dispatch(active);
    return active;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopSweep?.();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const connection of [...this.#all]) connection.close();
    for (const request of waiting) request.onError(closedFailure());
  }

  get sockets(): { readonly open: number; readonly idle: number; readonly waiting: number } {
    return { open: this.#all.size, idle: this.#idle.length, waiting: this.#waiting.size };
  }

  connected(connection: ClientConnection): void {
    this.#connecting -= 1;
    this.#free(connection);
  }

  released(connection: ClientConnection): void {
    connection.idleUntil = this.#clock.turnNow() + Math.min(this.#idleMs, connection.keepAliveHintMs - HINT_MARGIN_MS);
    this.#free(connection);
  }

  #dispatch(request: ActiveRequest): void {
    const connection = request.request.fresh === true ? null : this.#takeIdle();
    if (connection !== null) {
      connection.start(request);
      return;
    }
    this.#waiting.add(request);
    this.#connectMore();
  }

  /** Opens one connection for each waiting request, up to the limit. */
  #connectMore(): void {
    while (this.#connecting < this.#waiting.size && this.#all.size < this.#maxSockets && !this.#closed) {
      if (fewDescriptorsLeft()) {
        const [next] = this.#waiting as Iterable<ActiveRequest>;
        this.#waiting.delete(next!);
        process.nextTick(() => next!.onError(new HttpFailure('refused', false, NO_DESCRIPTORS)));
        continue;
      }
      this.#connecting += 1;
      this.#all.add(new ClientConnection(this, this.#options));
    }
  }

  #takeIdle(): ClientConnection | null {
    if (this.#idle.length === 0) return null;
    const now = this.#clock.now();
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (connection.idleUntil > now) return connection;
      connection.discard();
    }
    return null;
  }

  #free(connection: ClientConnection): void {
    const next = this.#waiting.values().next();
    if (next.done !== true) {
      this.#waiting.delete(next.value);
      connection.start(next.value);
      return;
    }
    if (connection.idleUntil === 0) connection.idleUntil = this.#clock.now() + this.#idleMs;
    this.#idle.push(connection);
    this.#stopSweep ??= this.#clock.after(this.#idleMs, () => this.#sweep());
  }

  #sweep(): void {
    this.#stopSweep = null;
    const now = this.#clock.now();
    for (const connection of this.#idle.filter((each) => each.idleUntil <= now)) connection.discard();
    if (this.#idle.length > 0) this.#stopSweep = this.#clock.after(this.#idleMs, () => this.#sweep());
  }

  gone(connection: ClientConnection, failure: HttpFailure | null): void {
    if (!this.#all.delete(connection)) return;
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    if (!connection.everConnected) {
      this.#connecting -= 1;
      const next = this.#waiting.values().next();
      if (next.done !== true && failure !== null) {
        this.#waiting.delete(next.value);
        next.value.onError(failure);
      }
    }
    this.#connectMore();
  }

  unsent(request: ActiveRequest): void {
    request.connection = null;
    request.unsent += 1;
    if (request.unsent > MAX_UNSENT || this.#closed) {
      request.onError(new HttpFailure('reset', false, 'the connection was closed before a byte was sent'));
      return;
    }
    this.#dispatch(request);
  }

  #headOf(request: HttpRequest, bodyBytes: number): string {
    if (request.method !== this.#lineMethod || request.path !== this.#linePath) {
      if (!METHOD.test(request.method)) throw new TypeError('the method is malformed');
      if (!PATH.test(request.path)) throw new TypeError('the path is malformed');
      this.#line = `${request.method} ${request.path} HTTP/1.1\r\nHost: ${this.#host}\r\n`;
      this.#lineMethod = request.method;
      this.#linePath = request.path;
    }
    const { block, headers } = request;
    if (block === undefined || bodyBytes === 0) return this.#ownHead(request, bodyBytes);
    // Requests of one session differ little but in their length, and in that seldom.
    if (block.headBytes !== bodyBytes || block.headLine !== this.#line || !sameTexts(block.headOwn, headers)) {
      block.head = this.#ownHead(request, bodyBytes);
      block.headLine = this.#line;
      block.headBytes = bodyBytes;
      block.headOwn = headers;
    }
    return block.head;
  }

  #ownHead(request: HttpRequest, bodyBytes: number): string {
    const block = request.block?.text ?? '';
    const own = request.headers.length === 0 ? '' : encodeHeaders(request.headers);
    if (bodyBytes === 0 && (request.method === 'GET' || request.method === 'HEAD' || request.method === 'DELETE')) {
      return `${this.#line}${block}${own}\r\n`;
    }
    return `${this.#line}${block}${own}Content-Length: ${bodyBytes}\r\n\r\n`;
  }
}

function sameTexts(some: readonly string[], others: readonly string[]): boolean {
  if (some === others) return true;
  if (some.length !== others.length) return false;
  for (let i = 0; i < some.length; i++) if (some[i] !== others[i]) return false;
  return true;
}

function closedFailure(): HttpFailure {
  return new HttpFailure('closed', false, 'the client was closed');
}
