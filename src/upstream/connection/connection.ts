import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError, NoLease } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import type { TappedConnection } from '../../model/wire-tap.ts';
import { cancellation, notification, request } from '../../protocol/compose.ts';
import { SET_LEVEL } from '../../protocol/methods.ts';
import { oneLine } from '../../protocol/splice.ts';
import type { Call } from '../calls/call.ts';
import { outgoing } from '../calls/outgoing-request.ts';
import { DeferredLosses, OwnRequest, PendingRequests, type RequestCarrier, RequestIds } from '../calls/pending.ts';
import type { ClosedReason, CloseReason, Transport, TransportReceiver } from '../transport/transport.ts';
import { ConnectionUse } from './connection-use.ts';
import type { JoinedSession } from './joined-session.ts';
import { LogLevelSync, takesLevel } from './log-level-sync.ts';
import { type ConnectionDeps, ServerMessages } from './server-messages.ts';
import { isOneClient, NO_SESSION, sessionOf, type Tenancy, WARM } from './session-key.ts';

const TIMEOUTS_TILL_PROBE = 3;
/** How long the first call of a new owner is waited for before held requests of the server are sent without one. */
const HELD_MS = 100;
const LF = 0x0a;
const CR = 0x0d;
let count = 0;

/**
 * One MCP connection over one transport. It tracks the requests in flight under random integer ids of its own: clients' ids and
 * progress tokens never reach a server, so two clients cannot collide on a shared pipe, and an answer finds its call by exactly
 * the lexeme that was sent. Until the handshake is done, only `ask` and `post` may be used.
 */
export class Connection implements RequestCarrier, TransportReceiver {
  readonly transport: Transport;
  readonly profile: ClientProfile;
  readonly createdAt: number;
  readonly use: ConnectionUse;
  handshake: HandshakeResult | null = null;
  tenancy: Tenancy = WARM;
  era: Era = 'stateful';
  /** The connection has neither ended nor been closed. */
  live = true;
  /** The session key of the connection in the pool; empty without an owner. */
  key = NO_SESSION;
  /** null if the server does not support log levels. */
  #level: LogLevelSync | null = null;
  /** The server's session id (HTTP, stateful era); null if the server issued none. */
  mcpSessionId: string | null = null;
  /** Membership in the session that all nodes share; null if the session is this connection's alone. */
  joined: JoinedSession | null = null;
  /** Why the connection ended by itself; null while it lives or if the gateway closed it. */
  closedReason: ClosedReason | null = null;
  readonly #deps: ConnectionDeps<Connection>;
  readonly #pending: PendingRequests;
  readonly #unsent: DeferredLosses;
  readonly #messages: ServerMessages<Connection>;
  readonly #oneLine: boolean;
  readonly #ids: RequestIds;
  readonly #number = ++count;

  constructor(transport: Transport, deps: ConnectionDeps<Connection>) {
    this.transport = transport;
    this.createdAt = deps.clock.wall();
    this.profile = deps.profile;
    this.use = new ConnectionUse(deps.clock);
    this.#pending = new PendingRequests(deps.clock);
    this.#unsent = new DeferredLosses(deps.clock);
    this.#deps = deps;
    this.#ids = new RequestIds(deps.random, this.#pending.byId, deps.shortIds === true);
    this.#oneLine = !transport.streamPerRequest;
    this.#messages = new ServerMessages(this, deps, this.#pending, this.use);
  }

  /** Whether calls may be sent: the handshake is done and the transport lives. */
  get ready(): boolean {
    return this.live && this.handshake !== null;
  }

  /** Requests in flight, without the gateway's own subscription stream. */
  get inFlight(): number {
    return this.#pending.inFlight;
  }

  /** Number of requests that keep the server busy, for comparison with other connections of the server. */
  get load(): number {
    return this.#pending.load;
  }

  /** Whether it is in use (S1.7): requests, tasks, open requests of the server, watched resources. */
  get busy(): boolean {
    return this.occupied || this.use.watching;
  }

  /** Whether closing it would interrupt work: a call, a list, a task, a request of the server. */
  get occupied(): boolean {
    return this.inFlight > 0 || this.serving;
  }

  /** The same without the gateway's own requests. */
  get serving(): boolean {
    return this.#pending.forClients || this.#messages.asking || this.use.working;
  }

  get pid(): number | null {
    return this.transport.pid;
  }

  get label(): string {
    return `c${this.#number}`;
  }

  /** How a wire recording identifies it. */
  get tapped(): TappedConnection {
    return { server: this.#deps.server, label: this.label, sessionId: sessionOf(this.tenancy) };
  }

  open(): Promise<void> {
    return this.transport.open(this);
  }

  /** The handshake is done: the connection now speaks this era and takes calls. */
  negotiated(handshake: HandshakeResult): void {
    // Other requests of the handshake may never be answered and must not keep the connection busy.
    for (const id of this.#pending.ids) if (this.#pending.remove(id)) this.transport.abandon(id);
    this.#applyHandshake(handshake);
    if (handshake.era === 'stateful') this.notify(notification('notifications/initialized', null, 'stateful'));
  }

  /** The server truncates ids to 32 bits: it answered this request under its truncated id. */
  onTruncatedId(id: number): void {
    this.#ids.short = true;
    if (this.#oneLine) this.transport.abandon(id);
  }

  /** Resumes a session that was negotiated on another connection. */
  resumed(handshake: HandshakeResult, { mcpSessionId, logLevel }: UpstreamSessionRecord): void {
    this.mcpSessionId = mcpSessionId;
    this.#applyHandshake(handshake, mcpSessionId);
    if (logLevel !== undefined) this.#level?.recordLevel(logLevel);
  }

  #applyHandshake(handshake: HandshakeResult, resumeSessionId?: string): void {
    const { era, revision } = handshake;
    this.handshake = handshake;
    this.era = era;
    const facts = { era, revision, silent: this.#deps.silent };
    this.transport.negotiated(resumeSessionId === undefined ? facts : { ...facts, resumeSessionId });
    if (era === 'stateful' && takesLevel(handshake.capabilities)) {
      this.#level = new LogLevelSync(this, this.#pending.byId, this.#oneLine);
    }
  }

  /** The log level that was last sent to the server; null for none. */
  get logLevel(): string | null {
    return this.#level?.sent ?? null;
  }

  /** Assigns the connection to an owner, who is then sent the held requests of the server. */
  adopt(tenancy: Tenancy, key: string, logLevel: string | null = null): void {
    this.tenancy = tenancy;
    this.key = key;
    if (tenancy.kind === 'session' && logLevel !== null) void this.#level?.requestLevel(logLevel);
    // Waits for the first call, whose stream can carry them; not every client has another stream open.
    if (this.heldForMs > 0) this.#deps.clock.after(HELD_MS, () => this.#messages.release());
  }

  /** Age in milliseconds of the oldest request of the server that waits for an owner; 0 for none. */
  get heldForMs(): number {
    return this.#messages.heldForMs;
  }

  /** A request of the server is open at one of the clients that share the connection: none of their calls should join it. */
  get engaged(): boolean {
    return !this.transport.streamPerRequest && !isOneClient(this.tenancy) && this.#messages.engaged;
  }

  /** Sends a client's request. The result is reported to the call. */
  send(call: Call): void {
    const level = call.exchange.client.logLevel === null ? null : this.#level;
    if (level === null || !level.deferCall(call, () => this.#send(call))) this.#send(call);
  }

  #send(call: Call): void {
    if (!this.live) {
      call.lost(this.#closedError('NOT_SENT'));
      return;
    }
    const id = this.#ids.next();
    call.wire = this.#ids.wire(id);
    this.#pending.add(id, call);
    this.use.sent();
    call.place(this, id);
    const wire = outgoing(call, this.era, this.transport.streamPerRequest, this);
    this.#write(wire.parts, id, call.method, wire.headers);
    if (this.heldForMs > 0) this.#messages.release();
  }

  /** As `ConnectionOwner.tool`. */
  tool(fingerprint: string, name: string): Buffer | null {
    return this.#deps.owner.tool(fingerprint, name);
  }

  /** Sends a request of the gateway's own. Rejects with GatewayError; after `timeoutMs` with TIMEOUT. */
  async ask(message: Message, timeoutMs: number, headers: readonly string[] | null = null): Promise<Message> {
    const { id, pending } = this.post(message, headers);
    const disarm = this.#deps.clock.after(timeoutMs, () => {
      if (!this.#pending.remove(id)) return;
      const text = `${this.#deps.server} did not answer ${message.method} within ${timeoutMs} ms`;
      // A log level is still wanted, and set late it serves the next calls.
      if (message.method !== SET_LEVEL) this.#cancel(pending.wire, 'the deadline ran out');
      this.transport.abandon(id);
      pending.lost(new GatewayError('TIMEOUT', text, { server: this.#deps.server }));
    });
    try {
      return await pending.answer;
    } finally {
      disarm();
    }
  }

  /** As `ask`, without a deadline: the caller has to `withdraw` it, or ignores its result. */
  post(message: Message, headers: readonly string[] | null = null): { id: number; pending: OwnRequest } {
    const id = this.#ids.next();
    const pending = new OwnRequest(message.method);
    pending.answer.catch(() => {});
    if (!this.live) {
      pending.lost(this.#closedError('NOT_SENT'));
      return { id, pending };
    }
    pending.wire = this.#ids.wire(id);
    this.#pending.add(id, pending);
    if (this.handshake === null) this.era = message.era;
    const own = request(message.method, pending.wire, message.bodyStart < 0 ? null : message.body, message.era);
    const mirrored = message.era === 'stateless' && this.transport.streamPerRequest;
    this.#write([own.bytes], id, message.method, headers ?? (mirrored ? ['Mcp-Method', message.method] : null));
    return { id, pending };
  }

  /** Sends a notification. */
  notify(message: Message): void {
    if (this.live) this.#write([message.bytes], 0, message.method, null);
  }

  answer(parts: readonly Buffer[]): void {
    if (this.live) this.#write(parts, 0, '', null);
  }

  withdraw(id: number, why: 'timeout' | 'cancelled', reason: string): boolean {
    const pending = this.#pending.byId.get(id);
    if (pending === undefined || !this.live) return !this.#unsent.has(id);
    this.#pending.remove(id);
    this.#cancel(pending.wire, reason);
    this.#messages.withdrawn(id, pending, this.era);
    this.transport.abandon(id);
    if (why === 'timeout') {
      this.use.timedOut(pending);
      if (this.use.timeouts === TIMEOUTS_TILL_PROBE) this.#deps.owner.unresponsive(this);
    }
    return true;
  }

  /** A stateless HTTP server sees the cancellation by the end of the stream. */
  #cancel(wire: string, reason: string): void {
    if (this.era === 'stateful' || !this.transport.streamPerRequest) {
      this.notify(cancellation(wire, reason, this.era));
    }
  }

  received(bytes: Buffer, stream: number): void {
    this.#messages.take(bytes, stream);
  }

  lost(id: number, error: GatewayError): void {
    const pending = this.#pending.byId.get(id);
    if (pending === undefined) return;
    this.#pending.remove(id);
    try {
      if (this.live && error.code !== 'INVALID_REQUEST') this.use.failed(pending, error.message);
      this.transport.abandon(id);
      this.#messages.lost(pending);
    } finally {
      if (this.live && this.#oneLine && error.code === 'NOT_SENT' && !(error instanceof NoLease))
        this.#unsent.hold(id, pending, error);
      else pending.lost(error);
    }
  }

  sessionId(id: string): void {
    this.mcpSessionId = id;
  }

  missed(): void {
    this.#deps.owner.missed(this);
  }

  closed(reason: ClosedReason): void {
    if (!this.live) return;
    this.live = false;
    this.closedReason = reason;
    this.#loseAll();
    this.#deps.owner.closed(this, reason);
    this.#unsent.releaseAll();
  }

  /** Runs a task that sends several requests: the connection is not drained before it is done. */
  during<T>(work: () => Promise<T>): Promise<T> {
    return this.#pending.during(work);
  }

  /** Resolves when only subscriptions are in flight, at the latest after `deadlineMs`. */
  async drained(deadlineMs: number): Promise<void> {
    if (this.live) await this.#pending.drained(deadlineMs);
  }

  /** Closes it; in-flight requests get UNKNOWN, unsent ones NOT_SENT. Resolves when the transport has ended. */
  async close(how: CloseReason): Promise<void> {
    const { joined, live } = this;
    this.live = false;
    if (live) this.#messages.close();
    // Before `#loseAll`: only the transport knows which requests the server never got.
    const ended = joined === null ? this.transport.close(how) : null;
    if (live) {
      this.#loseAll();
      this.#unsent.releaseAll();
    }
    if (joined === null) await ended;
    else await this.transport.close(how === 'remove' ? await joined.end() : how);
  }

  #write(parts: readonly Buffer[], id: number, method: string, headers: readonly string[] | null): void {
    const line = this.#oneLine && parts.some(hasBreak) ? [oneLine(Buffer.concat(parts))] : parts;
    this.#deps.wires?.tap?.server(this.tapped, 'gateway', parts, this.#pending.byId.get(id)?.exchange ?? null);
    this.transport.send(line, { request: id, method, headers });
  }

  #loseAll(): void {
    const { clock, durations, server } = this.#deps;
    if (this.handshake?.era === 'stateful') {
      const series = durations?.of(this.handshake.revision, this.closedReason?.kind ?? '', server);
      series?.observe(Math.max(0, clock.wall() - this.createdAt) / 1_000);
    }
    const lost = this.#pending.takeAll();
    this.joined?.leave();
    this.#messages.close();
    for (const pending of lost) pending.lost(this.#closedError('UNKNOWN'));
    this.#pending.settle();
  }

  #closedError(code: 'NOT_SENT' | 'UNKNOWN'): GatewayError {
    return new GatewayError(code, `the connection to ${this.#deps.server} was closed`, { server: this.#deps.server });
  }
}

function hasBreak(part: Buffer): boolean {
  return part.includes(LF) || part.includes(CR);
}
