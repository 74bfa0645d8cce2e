import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import type { TappedConnection } from '../../model/wire-tap.ts';
import { cancellation, notification, request } from '../../protocol/compose.ts';
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
/** How long a new owner's first call is waited for, before what the server wanted to know is asked without one. */
const HELD_MS = 100;
const LF = 0x0a;
const CR = 0x0d;
let count = 0;

/**
 * One MCP connection over one transport. It keeps the requests in flight, under random integer ids of its own: clients' ids and
 * progress tokens never reach a server, so two clients cannot collide on a shared pipe, and an answer finds its call by
 * exactly the lexeme that was sent. Until the handshake is done, only `ask` and `post` may be used.
 */
export class Connection implements RequestCarrier, TransportReceiver {
  readonly transport: Transport;
  readonly profile: ClientProfile;
  readonly createdAt: number;
  readonly use: ConnectionUse;
  handshake: HandshakeResult | null = null;
  tenancy: Tenancy = WARM;
  era: Era = 'stateful';
  /** It has not ended, and was not closed. */
  live = true;
  /** The session key it is pooled under; empty while it has no owner. */
  key = NO_SESSION;
  /** null where the server takes none. */
  #level: LogLevelSync | null = null;
  /** The server's session id (HTTP, stateful era); null where it gave none. */
  mcpSessionId: string | null = null;
  /** That session is used by all nodes; null while it is this connection's alone. */
  joined: JoinedSession<Connection> | null = null;
  /** Why it ended by itself; null while it lives or was closed by us. */
  ended: ClosedReason | null = null;
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

  /** Requests in flight, but for our own stream that listens for changes. */
  get inFlight(): number {
    return this.#pending.inFlight;
  }

  /** All that is in flight, for comparison with other connections of the same server. */
  get load(): number {
    return this.#pending.load;
  }

  /** It is in use (S1.7): calls, tasks, questions of the server's, resources that are watched. */
  get busy(): boolean {
    return this.occupied || this.use.watching;
  }

  /** Ending it would end something under way: a call, a list, a task, a question of the server's. */
  get occupied(): boolean {
    return this.inFlight > 0 || this.serving;
  }

  /** The same without lists and other requests of the gateway's own. */
  get serving(): boolean {
    return this.#pending.forClients || this.#messages.asking || this.use.working;
  }

  get pid(): number | null {
    return this.transport.pid;
  }

  get label(): string {
    return `c${this.#number}`;
  }

  /** What a recording knows it by. */
  get tapped(): TappedConnection {
    return { server: this.#deps.server, label: this.label, sessionId: sessionOf(this.tenancy) };
  }

  open(): Promise<void> {
    return this.transport.open(this);
  }

  /** The handshake is done: from now on the connection speaks this era and takes calls. */
  negotiated(handshake: HandshakeResult): void {
    // What the handshake has asked beside that is answered late or never, and must not keep the connection busy.
    for (const id of this.#pending.ids) if (this.#pending.remove(id)) this.transport.abandon(id);
    this.#speaks(handshake);
    if (handshake.era === 'stateful') this.notify(notification('notifications/initialized', null, 'stateful'));
  }

  /** The server cuts ids to 32 bits: it answered this request under what is left of its id then. */
  cutsIds(id: number): void {
    this.#ids.short = true;
    if (this.#oneLine) this.transport.abandon(id);
  }

  /** It goes on with a session that was negotiated on another connection. */
  resumed(handshake: HandshakeResult, { mcpSessionId, logLevel }: UpstreamSessionRecord): void {
    this.mcpSessionId = mcpSessionId;
    this.#speaks(handshake, mcpSessionId);
    if (logLevel !== undefined) this.#level?.was(logLevel);
  }

  #speaks(handshake: HandshakeResult, resumeSessionId?: string): void {
    const { era, revision } = handshake;
    this.handshake = handshake;
    this.era = era;
    const facts = { era, revision, silent: this.#deps.silent };
    this.transport.negotiated(resumeSessionId === undefined ? facts : { ...facts, resumeSessionId });
    if (era === 'stateful' && takesLevel(handshake.capabilities)) {
      this.#level = new LogLevelSync(this, this.#pending.byId, this.#oneLine);
    }
  }

  /** The log level that was sent to the server last; null for none. */
  get logLevel(): string | null {
    return this.#level?.sent ?? null;
  }

  /** Says whose the connection is, and asks them what the server asked before the connection had an owner. */
  adopt(tenancy: Tenancy, key: string, logLevel: string | null = null): void {
    this.tenancy = tenancy;
    this.key = key;
    if (tenancy.kind === 'session' && logLevel !== null) void this.#level?.before(logLevel);
    // On the first call they can be asked on its stream; not every client has another one open.
    if (this.#messages.holding) this.#deps.clock.after(HELD_MS, () => this.#messages.release());
  }

  /** Age of the oldest request of the server's that waits for an owner, in milliseconds; 0 for none. */
  get heldForMs(): number {
    return this.#messages.heldForMs;
  }

  /** A question is before one of the clients that share the connection: no other call of theirs should be on it. */
  get engaged(): boolean {
    return !this.transport.streamPerRequest && !isOneClient(this.tenancy) && this.#messages.engaged;
  }

  /** Sends a client's request. Its end is reported to the call. */
  send(call: Call): void {
    const level = call.exchange.client.logLevel === null ? null : this.#level;
    if (level === null || !level.holdsBack(call, () => this.#send(call))) this.#send(call);
  }

  #send(call: Call): void {
    if (!this.live) {
      call.lost(this.#gone('NOT_SENT'));
      return;
    }
    const id = this.#ids.next();
    call.wire = this.#ids.wire(id);
    this.#pending.add(id, call);
    this.use.sent();
    call.place(this, id);
    const wire = outgoing(call, this.era, this.transport.streamPerRequest, this);
    this.#write(wire.parts, id, call.method, wire.headers);
    if (this.#messages.holding) this.#messages.release();
  }

  /** As `ConnectionOwner.tool`. */
  tool(name: string): Buffer | null {
    return this.#deps.owner.tool(this, name);
  }

  /** Sends a request of the gateway's own. Rejects with GatewayError; after `timeoutMs` with TIMEOUT. */
  async ask(message: Message, timeoutMs: number, headers: readonly string[] | null = null): Promise<Message> {
    const { id, pending } = this.post(message, headers);
    const disarm = this.#deps.clock.after(timeoutMs, () => {
      if (!this.#pending.remove(id)) return;
      const text = `${this.#deps.server} did not answer ${message.method} within ${timeoutMs} ms`;
      pending.lost(new GatewayError('TIMEOUT', text, { server: this.#deps.server }));
    });
    try {
      return await pending.answer;
    } finally {
      disarm();
    }
  }

  /** Like `ask`, without a deadline: the caller has to `withdraw` it, or ignore its end. */
  post(message: Message, headers: readonly string[] | null = null): { id: number; pending: OwnRequest } {
    const id = this.#ids.next();
    const pending = new OwnRequest(message.method);
    pending.answer.catch(() => {});
    if (!this.live) {
      pending.lost(this.#gone('NOT_SENT'));
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

  /** Sends a notification, or an answer to a request of the server's. */
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
    if (this.era === 'stateful' || !this.transport.streamPerRequest) {
      this.notify(cancellation(pending.wire, reason, this.era));
    }
    this.#messages.withdrawn(id, pending, this.era);
    this.transport.abandon(id);
    if (why === 'timeout') {
      this.use.timedOut(pending);
      if (this.use.timeouts === TIMEOUTS_TILL_PROBE) this.#deps.owner.unresponsive(this);
    }
    return true;
  }

  received(bytes: Buffer, stream: number): void {
    this.#messages.take(bytes, stream);
  }

  lost(id: number, error: GatewayError): void {
    const pending = this.#pending.byId.get(id);
    if (pending === undefined) return;
    this.#pending.remove(id);
    try {
      this.use.failed(pending, error.message);
      this.#messages.lost(pending);
    } finally {
      if (this.live && this.#oneLine && error.code === 'NOT_SENT') this.#unsent.hold(id, pending, error);
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
    this.ended = reason;
    this.#loseAll();
    this.#deps.owner.closed(this, reason);
    this.#unsent.releaseAll();
  }

  /** Runs work of several requests of the gateway's own: the connection is not drained before all of it is done. */
  during<T>(work: () => Promise<T>): Promise<T> {
    return this.#pending.during(work);
  }

  /** Resolves when nothing is in flight but open subscriptions, at the latest after `deadlineMs`. */
  async drained(deadlineMs: number): Promise<void> {
    if (this.live) await this.#pending.drained(deadlineMs);
  }

  /** Ends it; what is in flight gets UNKNOWN. Resolves when nothing is left of it. */
  async close(how: CloseReason): Promise<void> {
    if (this.live) {
      this.live = false;
      this.#loseAll();
      this.#unsent.releaseAll();
    }
    const { joined } = this;
    await this.transport.close(how === 'remove' && joined !== null ? await joined.end() : how);
  }

  #write(parts: readonly Buffer[], id: number, method: string, headers: readonly string[] | null): void {
    const line = this.#oneLine && parts.some(hasBreak) ? [oneLine(Buffer.concat(parts))] : parts;
    this.#deps.wires?.tap?.server(this.tapped, 'gateway', parts, this.#pending.byId.get(id)?.exchange ?? null);
    this.transport.send(line, { request: id, method, headers });
  }

  #loseAll(): void {
    const { clock, durations, server } = this.#deps;
    if (this.handshake?.era === 'stateful') {
      const series = durations?.of(this.handshake.revision, this.ended?.kind ?? '', server);
      series?.observe(Math.max(0, clock.wall() - this.createdAt) / 1_000);
    }
    const lost = this.#pending.takeAll();
    this.joined?.leave();
    this.#messages.close();
    for (const pending of lost) pending.lost(this.#gone('UNKNOWN'));
    this.#pending.settle();
  }

  #gone(code: 'NOT_SENT' | 'UNKNOWN'): GatewayError {
    return new GatewayError(code, `the connection to ${this.#deps.server} was closed`, { server: this.#deps.server });
  }
}

function hasBreak(part: Buffer): boolean {
  return part.includes(LF) || part.includes(CR);
}
