import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { MemoryLevel } from '../../model/pooled-buffers.ts';
import { stackOf } from '../../model/thrown.ts';
import { BodyBudget, SMALL_BODY_BYTES } from '../context/body-budget.ts';
import { destroyLater } from '../context/destroy-later.ts';
import type { HttpContext } from '../context/http-context.ts';
import { type Refusal, type RefusalRenderer, rawRefusal, renderRefusal } from '../context/refusal.ts';
import { connectionCap, descriptorLimit, fewDescriptorsLeft } from '../descriptor-limit.ts';
import { FastPath } from '../fast-path/fast-path.ts';
import { nodeHttp } from '../node-http.ts';
import { StreamWheel } from '../sse/stream-wheel.ts';
import { type CertificateFiles, readCertificate, watchCertificate } from './certificate.ts';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';
import { answerPreflight, corsHeaders, isPreflight } from './cors.ts';
import { answerClientError, gateRefusal, noteLast, unroutable } from './gate-refusal.ts';
import { ListenError } from './listen-error.ts';
import { NodeHttpContext } from './node-http-context.ts';
import { atQuietTurn } from './quiet-turn.ts';
import { RequestContext, type RequestContextDeps } from './request-context.ts';
import { type GateSettings, RequestGate } from './request-gate.ts';
import { MAX_HEADERS } from './request-headers.ts';
import { type Handler, RouteTable } from './route-table.ts';

export interface ListenerSettings extends GateSettings {
  readonly port: number;
  readonly tls: CertificateFiles | null;
  readonly maxBodyBytes: number;
  readonly maxConnections: number;
}

/** Log of the listener; `Logger` implements it. */
export interface ListenerLog {
  info(event: string, fields?: Record<string, unknown>): void;
  warn(event: string, fields?: Record<string, unknown>): void;
  error(event: string, fields?: Record<string, unknown>): void;
}

export interface ListenerOptions {
  readonly settings: ListenerSettings;
  readonly log: ListenerLog;
  readonly wheel?: StreamWheel;
  readonly limiter?: ConcurrencyLimiter;
  /** Memory pressure: large bodies, then all calls, are refused before memory runs out (F40). */
  readonly memory?: { readonly level: MemoryLevel };
  /** The budget of the node: one for all its listeners. */
  readonly bodies?: BodyBudget;
  /** The flag that sets the port, for the message if it is in use. */
  readonly portFlag?: string;
  /** How long a client may take for its headers, and for the whole request. 20 s and 30 s. */
  readonly headersTimeoutMs?: number;
  readonly requestTimeoutMs?: number;
  /** A client that takes nothing of its answer for this long is disconnected. 30 s. */
  readonly stallMs?: number;
  /** The operator's listener: accepts connections down to the last file descriptor. */
  readonly usesReserve?: boolean;
  /** Called with the code of every refusal before a handler; for metrics. */
  readonly onRefused?: (code: string) => void;
}

const KEEP_ALIVE_MS = 65_000;
const POLL_MS = 20;
/** Longest wait for a quiet turn of a loop that stays busy. */
const QUIET_MS = 100;
/**
 * From the connection to the complete head. Fifty agents that start at once on two cores wait up to 14 s for a processor
 * before they send anything. A slow sender is disconnected within 25 s.
 */
const HEAD_MS = 20_000;
/** A request that is incomplete for one to two of these parts of the time for its head goes to `node:http`. */
const TICKS_OF_HEAD = 80;
/** Deadlines and limits of `node:http`. Never uses the lenient parser. */
const LIMITS: ServerOptions = {
  keepAliveTimeout: KEEP_ALIVE_MS,
  maxHeaderSize: 16 * 1024,
  // The gateway answers a missing Host itself, in the format of its other refusals.
  requireHostHeader: false,
  insecureHTTPParser: false,
  noDelay: true,
};
const MAX_REQUESTS_PER_SOCKET = 100_000;

/**
 * One HTTP listener: limits, Host and Origin checks, routes. Refuses requests before a handler runs and before their body
 * is read. `update` can replace all settings but address, port and TLS files.
 */
export class Listener {
  readonly routes = new RouteTable();
  /** Headers of every answer, refusals included; name and value alternating. */
  answerHeaders: readonly string[] = [];
  /** The timer of the open event streams. */
  readonly wheel: StreamWheel;
  readonly #server: Server | TlsServer;
  readonly #fastPath: FastPath;
  readonly #limiter: ConcurrencyLimiter;
  readonly #memory: { readonly level: MemoryLevel };
  readonly #overloaded = new Map<RefusalRenderer, string>();
  readonly #log: ListenerLog;
  readonly #portFlag: string;
  readonly #onRefused: (code: string) => void;
  readonly #settings: ListenerSettings;
  #gate: RequestGate;
  #parts: RequestContextDeps;
  #draining = false;
  #accepted = 0;
  #unwatch: (() => void) | null = null;

  /** Throws if the certificate cannot be read. */
  constructor(options: ListenerOptions) {
    const { settings } = options;
    this.#settings = settings;
    this.#log = options.log;
    this.#portFlag = options.portFlag ?? '--port';
    this.#onRefused = options.onRefused ?? (() => {});
    this.wheel = options.wheel ?? new StreamWheel();
    this.#limiter = options.limiter ?? new ConcurrencyLimiter();
    this.#memory = options.memory ?? { level: 'ample' };
    this.#gate = new RequestGate(settings);
    const stallMs = options.stallMs ?? 30_000;
    const { bodies = new BodyBudget() } = options;
    this.#parts = { wheel: this.wheel, maxBodyBytes: settings.maxBodyBytes, stallMs, bodies };
    const headersTimeout = options.headersTimeoutMs ?? HEAD_MS;
    const requestTimeout = options.requestTimeoutMs ?? 30_000;
    const limits = { ...LIMITS, headersTimeout, requestTimeout, connectionsCheckingInterval: headersTimeout / 4 };
    this.#server = settings.tls === null ? nodeHttp.createServer(limits) : this.#createTls(settings.tls, limits);
    this.#server.maxConnections = connectionCap(settings.maxConnections, descriptorLimit());
    this.#server.maxRequestsPerSocket = MAX_REQUESTS_PER_SOCKET;
    // Node silently drops headers above its limit, and could drop a repeated one: accept more, and refuse.
    this.#server.maxHeadersCount = MAX_HEADERS + 8;
    this.#fastPath = new FastPath(this.#server, {
      encrypted: settings.tls !== null,
      tickMs: headersTimeout / TICKS_OF_HEAD,
      keepAliveMs: KEEP_ALIVE_MS,
      maxRequests: MAX_REQUESTS_PER_SOCKET,
      bodies,
      serve: (http) => this.#serve(http, new RequestContext(http, this.#gate, this.#parts)),
      onMalformed: () => this.#onRefused('malformed_request'),
    });
    if (options.usesReserve !== true) this.#keepDescriptors();
    this.#attachHandlers(this.#server);
  }

  /** Resolves when the port is bound. Rejects with ListenError, whose message gives the remedy. */
  listen(): Promise<{ readonly host: string; readonly port: number }> {
    const { host, port } = this.#settings;
    return new Promise((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException): void => reject(new ListenError(error, host, port, this.#portFlag));
      this.#server.once('error', failed);
      this.#server.listen({ host, port, backlog: 1024 }, () => {
        this.#server.removeListener('error', failed);
        this.#server.on('error', (error) => this.#log.error('listener_failed', { reason: error.message }));
        resolve({ host, port: this.port });
      });
    });
  }

  /** Serves a request of another HTTP server of this process, with the same checks. */
  serve(request: IncomingMessage, response: ServerResponse): void {
    this.#server.emit('request', request, response);
  }

  /** The bound port; 0 before `listen`. */
  get port(): number {
    return (this.#server.address() as AddressInfo | null)?.port ?? 0;
  }

  /** Replaces allowed hosts and origins, trusted proxies and limits. Address, port and TLS stay. */
  update(settings: ListenerSettings): void {
    this.#gate = new RequestGate({ ...settings, host: this.#settings.host });
    this.#parts = { ...this.#parts, maxBodyBytes: settings.maxBodyBytes };
    this.#server.maxConnections = connectionCap(settings.maxConnections, descriptorLimit());
  }

  /**
   * Accepts no further connections; open ones end with their next answer, which says so. A connection between two requests
   * stays open until it has been idle for `restMs`. Resolves when the idle connections are closed.
   */
  async stopAccepting(restMs = 0): Promise<void> {
    if (this.#draining) return;
    this.#draining = true;
    this.#unwatch?.();
    if (restMs > 0) {
      await atQuietTurn(() => this.#accepted);
      // As `net` closes, not as `node:http` does, which disconnects all clients that are between two requests.
      NetServer.prototype.close.call(this.#server);
      const end = performance.now() + restMs;
      while (performance.now() < end && (await this.#connections()) > 0) {
        this.#fastPath.closeIdle(this.#closing, restMs);
        await this.#waitForPoll();
      }
    }
    this.#server.close();
    this.#fastPath.closeIdle(this.#closing);
  }

  /** Gives answers in progress `graceMs` to finish, then ends every connection. Resolves when all are closed. */
  async close(graceMs = 0): Promise<void> {
    const gone = new Promise<void>((resolve) => {
      if (this.#server.listening) this.#server.once('close', resolve);
      else
        this.#server.getConnections((_error, count) => (count > 0 ? this.#server.once('close', resolve) : resolve()));
    });
    void this.stopAccepting();
    this.#server.close();
    const end = performance.now() + graceMs;
    let over = false;
    void gone.then(() => (over = true));
    while (!over && performance.now() < end) {
      this.#server.closeIdleConnections();
      this.#fastPath.closeIdle(this.#closing);
      await this.#waitForPoll();
    }
    this.#server.closeAllConnections();
    this.#fastPath.closeAll();
    await gone;
  }

  /** The answer to a request that arrives while its connection is being closed. */
  get #closing(): string {
    return rawRefusal(CLOSING, this.routes.render);
  }

  /**
   * Waits a moment, for a turn that has just polled all connections: on a busy machine a request may have arrived long
   * before.
   */
  async #waitForPoll(): Promise<void> {
    await delay(POLL_MS);
    await atQuietTurn(() => this.#accepted, QUIET_MS);
  }

  #connections(): Promise<number> {
    return new Promise((resolve) => this.#server.getConnections((_error, count) => resolve(count)));
  }

  #createTls(files: CertificateFiles, limits: ServerOptions): TlsServer {
    const needsClient = (files.clientCaFile ?? null) !== null;
    const server = process.getBuiltinModule('node:https').createServer({
      ...limits,
      ...readCertificate(files),
      requestCert: needsClient,
      rejectUnauthorized: needsClient,
      minVersion: 'TLSv1.2',
      handshakeTimeout: 10_000,
    });
    server.on('tlsClientError', (_error, socket) => socket.destroy());
    this.#unwatch = watchCertificate(
      files,
      (options) => {
        server.setSecureContext({ ...options, minVersion: 'TLSv1.2' });
        this.#log.info('certificate_reloaded', { file: files.certFile });
      },
      (error) => this.#log.warn('certificate_unusable', { file: files.certFile, reason: error.message }),
    );
    return server;
  }

  /** Child processes and connections to servers take descriptors too. */
  #keepDescriptors(): void {
    this.#server.on('connection', (socket: Socket) => {
      if (!fewDescriptorsLeft()) return;
      this.#onRefused('too_many_connections');
      socket.destroy();
    });
  }

  #attachHandlers(server: Server | TlsServer): void {
    const serve = (request: IncomingMessage, response: ServerResponse, expectsContinue = false): void => {
      const http = new NodeHttpContext(request, response, expectsContinue);
      const context = new RequestContext(http, this.#gate, this.#parts);
      noteLast(request.socket, context);
      this.#serve(http, context);
    };
    server.on('connection', () => {
      this.#accepted++;
    });
    server.on('request', serve);
    server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => serve(request, response, true));
    server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      const context = new RequestContext(new NodeHttpContext(request, response, false), this.#gate, this.#parts);
      noteLast(request.socket, context);
      this.#refuse(context, { status: 417, code: 'expectation_failed', message: 'only 100-continue can be expected' });
    });
    server.on('connect', (_request: IncomingMessage, socket: Socket) => {
      const refusal = {
        status: 405,
        code: 'method_not_allowed',
        message: 'this is no proxy',
        headers: ['Allow', 'GET, POST'],
      };
      socket.on('error', () => {});
      socket.end(rawRefusal(refusal, renderRefusal));
      destroyLater(socket);
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      this.#onRefused('malformed_request');
      answerClientError(error, socket);
    });
    server.on('drop', () => this.#onRefused('too_many_connections'));
  }

  /** All requests enter here, of the fast path and of `node:http`. */
  #serve(http: HttpContext, context: RequestContext): void {
    context.answerHeaders = this.answerHeaders;
    if (this.#draining) http.disableKeepAlive();
    const match = this.routes.match(context.path);
    if (match !== null) {
      context.param = match.param;
      if (match.route.render !== null) context.render = match.route.render;
      if (match.route.maxBodyBytes !== null) context.maxBodyBytes = match.route.maxBodyBytes;
    }
    const refusal = gateRefusal(http, this.#gate);
    if (refusal !== null) {
      this.#refuse(context, refusal);
      return;
    }
    const { method } = http;
    const { origin } = http.headers;
    if (origin !== undefined && this.#gate.allowsCors(origin)) {
      if (match !== null && isPreflight(context)) {
        answerPreflight(context, origin, match.route.allow);
        return;
      }
      context.answerHeaders = [...this.answerHeaders, ...corsHeaders(origin)];
    }
    const handler = match?.route.handlers.get(method);
    if (handler === undefined) {
      this.#refuse(context, unroutable(context.path, method, match?.route.allow ?? null));
      return;
    }
    if (!match!.route.sheds || method !== 'POST') {
      this.#handle(context, handler);
      return;
    }
    if (this.#memory.level !== 'ample' && !this.#hasMemoryFor(context)) {
      this.#shed(context);
      return;
    }
    const ticket = this.#limiter.enter();
    if (ticket < 0) {
      this.#limiter.wait({
        queuedAt: 0,
        enter: (given) => this.#enter(context, handler, given),
        refuse: () => this.#shed(context),
      });
      return;
    }
    this.#enter(context, handler, ticket);
  }

  #enter(context: RequestContext, handler: Handler, ticket: number): void {
    if (context.admitted(this.#limiter, ticket)) this.#handle(context, handler);
  }

  /** Accepts a body of unknown length up to the size of a small one. */
  #hasMemoryFor(context: RequestContext): boolean {
    const { level } = this.#memory;
    if (level === 'spent') return false;
    if (level !== 'scarce') return true;
    context.maxBodyBytes = Math.min(context.maxBodyBytes, SMALL_BODY_BYTES);
    return Number(context.header('content-length') ?? 0) <= SMALL_BODY_BYTES;
  }

  /** Overload refuses many requests in a short time, so the answer is composed once. */
  #shed(context: RequestContext): void {
    let text = this.#overloaded.get(context.render);
    if (text === undefined) this.#overloaded.set(context.render, (text = context.render(OVERLOADED)));
    const rendered = text;
    context.render = () => rendered;
    this.#refuse(context, OVERLOADED);
  }

  #handle(context: RequestContext, handler: Handler): void {
    try {
      handler(context);
    } catch (error) {
      this.#log.error('request_failed', { path: context.path, reason: stackOf(error) });
      context.fail({ status: 500, code: 'internal', message: 'a defect of the gateway; its log has the details' });
    }
  }

  #refuse(context: RequestContext, refusal: Refusal): void {
    this.#onRefused(refusal.code);
    context.refuse(refusal);
  }
}

const CLOSING: Refusal = {
  status: 408,
  code: 'connection_closing',
  message: 'the gateway closed this idle connection because it stops; the request was not read: send it again',
};
const OVERLOADED: Refusal = {
  status: 503,
  code: 'overloaded',
  message: 'too many requests at once; try again in a second',
  headers: ['Retry-After', '1'],
};
