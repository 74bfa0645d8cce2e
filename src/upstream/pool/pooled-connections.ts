import { GatewayError, type ProcessCapacity, ProcessLimitReached } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { ConnectionStatus, ServerStatus } from '../../model/server-state.ts';
import type { Connection } from '../connection/connection.ts';
import type { Connector } from '../connection/connector.ts';
import {
  connectionKeyText,
  isExclusive,
  labelOf,
  NO_SESSION,
  sessionOf,
  type WantedConnection,
} from '../connection/session-key.ts';
import type { SupportedEras } from '../connection/supported-eras.ts';
import type { PoolClosure, ServerContext } from '../server-context.ts';
import type { StartQueue } from '../supervision/start-queue.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import type { CloseReason } from '../transport/transport.ts';
import type { ProcessQuota, QuotaPool } from './process-quota.ts';
import { type EvictionCandidate, longestUnused, type Slot } from './slot.ts';

/** How long the process of a client without a stream is kept, for its return. As long as streams are kept. */
const GONE_MS = 5 * 60_000;

/**
 * Connections of one principal to a server that is no child process. Each set of capabilities that its stateless clients declare
 * has its own, and clients can declare any number.
 */
const MAX_OF_PRINCIPAL = 1_024;

/** Dependencies of one server's pool. */
export interface PoolParts {
  readonly connector: Connector;
  readonly eras: SupportedEras;
  readonly supervisor: Supervisor;
  /** The node's process limit; null for servers that are not child processes. */
  readonly quota: ProcessQuota | null;
  /** The queue for process starts; null for servers that are not child processes. */
  readonly starts: StartQueue | null;
}

/** The connections of one server: how they count against the limits and when they are closed. `SessionPool` opens them. */
export class PooledConnections implements QuotaPool {
  protected readonly context: ServerContext;
  protected readonly parts: PoolParts;
  /** By session key; the warm connection under `NO_SESSION`. */
  protected readonly slots = new Map<string, Slot>();
  /** Replaced warm connections over which the server is still being listed. */
  protected readonly replaced = new Set<Slot>();
  /** Slots whose connection is being opened, including slots that are not in `slots` any more. */
  protected readonly opening = new Set<Slot>();
  /** Connections that are being closed. */
  readonly #closing = new Set<Connection>();
  /** Opened connections that count against the limits; `#starting` counts those that are being opened. */
  readonly #running = new Set<Connection>();
  #starting = 0;

  constructor(context: ServerContext, parts: PoolParts) {
    this.context = context;
    this.parts = parts;
  }

  /** The warm connection, which has no owner yet. */
  protected get warm(): Slot | null {
    return this.slots.get(NO_SESSION) ?? null;
  }

  /** The connection under this key if calls can be sent on it now. */
  ready(key: string): Connection | null {
    const connection = this.slots.get(key)?.connection;
    return connection?.ready === true ? connection : null;
  }

  /** A live connection of this era with these capabilities, for listing; `unused`: without any request so far. */
  presenting(fingerprint: string, era: Era, unused: boolean): Connection | null {
    const fits = (one: Connection): boolean =>
      one.ready && one.era === era && one.profile.fingerprint === fingerprint && !(unused && one.use.requests > 0);
    return this.connections().find(fits) ?? null;
  }

  any(era?: Era): Connection | null {
    return this.connections().find((one) => one.ready && (era === undefined || one.era === era)) ?? null;
  }

  get opens(): boolean {
    return this.opening.size > 0;
  }

  /** Session keys, without that of the warm connection. */
  *keys(): Iterable<string> {
    for (const key of this.slots.keys()) if (key !== NO_SESSION) yield key;
  }

  /** The warm connection comes first. */
  *connections(): Generator<Connection> {
    const { warm } = this;
    if (warm?.connection) yield warm.connection;
    for (const slot of this.slots.values()) if (slot.connection !== null && slot !== warm) yield slot.connection;
  }

  /** Includes replaced warm connections. */
  #all(): Slot[] {
    return [...this.replaced, ...this.slots.values()];
  }

  // Process limits.

  get #count(): number {
    return this.#running.size + this.#starting;
  }

  /** Whether the server has reached its own limit; the node may have room for more. */
  protected get serverFull(): boolean {
    return this.parts.quota !== null && this.#count >= this.context.server.limits.maxProcesses;
  }

  protected get full(): boolean {
    return this.serverFull || this.parts.quota?.full === true;
  }

  /** What a process for a new session key would need. A warm connection that does not fit is closed for it. */
  get capacity(): ProcessCapacity {
    if (!this.full || this.warm !== null) return 'free';
    const yields = this.serverFull ? this.longestUnused() !== null : this.parts.quota?.canEvict === true;
    return yields ? 'idle' : 'none';
  }

  /** The number of processes and the limit; null if the server is not a child process. */
  get processes(): ServerStatus['processes'] {
    return this.parts.quota === null ? null : { running: this.#count, limit: this.context.server.limits.maxProcesses };
  }

  /** REFUSED, naming the limit that was reached. */
  protected capacityError(): ProcessLimitReached {
    const { name, server } = this.context;
    const text = this.serverFull
      ? `${name} runs ${server.limits.maxProcesses} processes, its limit (limits.maxProcesses), and all are in use; try again or raise it`
      : `this node runs ${this.context.limits.maxProcesses} server processes, its limit (maxProcesses), and all are in use; try again or raise it`;
    return new ProcessLimitReached(name, text);
  }

  /** Reserves room for a connection until `started`, if needed by closing idle ones. False if there is none. */
  protected reserve(): boolean {
    while (this.full) if (!(this.serverFull ? this.evictOne() : this.parts.quota?.evictOne())) return false;
    this.parts.quota?.take(this);
    this.#starting++;
    return true;
  }

  /** `connection`: null if the start failed. */
  protected started(connection: Connection | null): void {
    this.#starting--;
    if (connection === null) this.parts.quota?.release();
    else this.#running.add(connection);
  }

  /** The connection no longer counts against the limits: it has ended, or is being closed for another one. */
  protected stopCounting(connection: Connection): void {
    if (this.#running.delete(connection)) this.parts.quota?.release();
  }

  /** Makes room for another connection of a principal, if needed by closing an idle one. Throws GatewayError OVERLOADED. */
  protected admit({ tenancy, profile: { principal } }: WantedConnection): void {
    if (tenancy.kind !== 'principal' || this.parts.quota !== null) return;
    const own = this.#all().filter(
      (slot) => slot.tenancy.kind === 'principal' && slot.profile.principal.id === principal.id,
    );
    if (own.length < MAX_OF_PRINCIPAL || this.evictOne(own)) return;
    const { name: server } = this.context;
    const text = `${server} has ${MAX_OF_PRINCIPAL} connections of ${principal.name}, the limit for clients without a session, and all are in use; try again, or declare the same capabilities in all requests`;
    throw new GatewayError('OVERLOADED', text, { server, retryAfterMs: 1_000 });
  }

  longestUnused(): EvictionCandidate | null {
    return longestUnused(this.#all(), this.context);
  }

  evictOne(slots = this.#all()): boolean {
    const slot = longestUnused(slots, this.context)?.slot;
    if (slot?.connection == null) return false;
    this.stopCounting(slot.connection);
    if (isExclusive(slot.tenancy) && slot.connection.era === 'stateful') this.#giveUp(slot, slot.connection, 'room');
    else {
      this.#forgetSlot(slot);
      void this.close(slot.connection, 'remove');
    }
    return true;
  }

  // Closing.

  /** The connection ended by itself: removes it and returns its owner; null if it was not pooled. */
  forget(connection: Connection): WantedConnection | null {
    this.stopCounting(connection);
    for (const [key, slot] of this.slots) {
      if (slot.connection !== connection) continue;
      this.slots.delete(key);
      return slot;
    }
    return null;
  }

  /** The client session has ended: closes its connection, also one that is being opened. */
  release(key: string): Promise<void> | null {
    const slot = this.slots.get(key);
    if (slot === undefined) return null;
    this.slots.delete(key);
    return this.end(slot, 'remove');
  }

  /** Closes these connections, also while they open or close: another node owns them. Resolves when all have ended. */
  async surrender(lost: (key: string) => boolean, how: CloseReason): Promise<void> {
    const left = [...this.opening].filter(({ key }) => lost(key)).map((slot) => this.end(slot, how));
    left.push(...this.endings(lost, how));
    for (const slot of this.#all()) {
      if (!lost(slot.key)) continue;
      if (this.slots.get(slot.key) === slot) this.slots.delete(slot.key);
      left.push(this.end(slot, how));
    }
    await Promise.all(left);
  }

  /** Closes connections that are idle for too long, sooner if the client is gone, or failed too often in a row (S1.7). */
  sweep(): void {
    const { deps, limits } = this.context;
    const { idleTimeoutMs, maxErrors } = limits.pool;
    for (const slot of [...this.slots.values()]) {
      const { connection, tenancy } = slot;
      if (connection === null || connection.busy) continue;
      const { consecutiveErrors, lastUsedAt } = connection.use;
      const sessionId = sessionOf(tenancy);
      const gone = connection.mcpSessionId === null && sessionId !== null && this.context.clientGone(sessionId);
      const keptMs = gone ? Math.min(idleTimeoutMs, GONE_MS) : idleTimeoutMs;
      if (consecutiveErrors >= maxErrors) this.#giveUp(slot, connection, 'errors');
      else if (isExclusive(tenancy) && deps.clock.now() - lastUsedAt > keptMs) this.#giveUp(slot, connection, 'idle');
    }
  }

  /** Closes the connection with this label (S1.10); its in-flight requests are lost. False if there is none. */
  closeLabelled(label: string): boolean {
    for (const slot of this.#all()) {
      const { connection, tenancy } = slot;
      if (connection === null || labelOf(tenancy) !== label) continue;
      this.#giveUp(slot, connection, 'closed');
      return true;
    }
    return false;
  }

  /** An HTTP session may stay open at its server, to be resumed; a process loses its state. */
  #giveUp(slot: Slot, connection: Connection, why: PoolClosure['why']): void {
    this.#forgetSlot(slot);
    const resumable = (why === 'idle' || why === 'room') && connection.mcpSessionId !== null;
    void this.close(connection, resumable ? 'shutdown' : 'remove');
    this.context.events.closedByPool({ want: slot, connection, why, resumable });
  }

  #forgetSlot(slot: Slot): void {
    if (!this.replaced.delete(slot)) this.slots.delete(slot.key);
  }

  async drained(deadlineMs: number): Promise<void> {
    await Promise.all([...this.connections()].map((connection) => connection.drained(deadlineMs)));
  }

  async closeAll(how: CloseReason): Promise<void> {
    const slots = this.#all();
    for (const { connection } of slots) connection?.joined?.leaveWithServer();
    const left = this.endings(() => true, how);
    this.slots.clear();
    this.parts.quota?.leave(this);
    await Promise.all([...left, ...slots.map((slot) => this.end(slot, how))]);
  }

  /** Closes the slot's connection, also while it is being opened. */
  protected async end(slot: Slot, how: CloseReason): Promise<void> {
    slot.attempt.cancel(how);
    if (slot.connection !== null) await this.close(slot.connection, how);
    else await slot.opening?.catch(() => {});
  }

  async close(connection: Connection, how: CloseReason): Promise<void> {
    this.#closing.add(connection);
    try {
      await connection.close(how);
    } finally {
      this.#closing.delete(connection);
      this.stopCounting(connection);
    }
  }

  /** The ends of processes that are being closed, sooner if `how` is more urgent. Other connections leave nothing behind. */
  protected endings(of: (key: string) => boolean, how: CloseReason): Promise<void>[] {
    const closing = this.context.ownProcess ? [...this.#closing] : [];
    return closing.filter(({ key }) => of(key)).map((connection) => connection.close(how));
  }

  /** Snapshots for the status (S1.4). */
  statuses(): ConnectionStatus[] {
    const { name: server, deps } = this.context;
    const sinceMonotonic = deps.clock.wall() - deps.clock.now();
    return [...this.connections(), ...this.#closing].map((connection) => {
      const { inFlight, use, live, transport, createdAt, tenancy } = connection;
      const { requests, errors, consecutiveErrors, lastError } = use;
      const key = labelOf(tenancy);
      return {
        id: connectionKeyText({ server, session: key }),
        key,
        state: !live ? 'closed' : inFlight > 0 ? 'active' : 'idle',
        pid: transport.pid,
        inFlight,
        createdAt,
        lastUsedAt: use.lastUsedAt + sinceMonotonic,
        requests,
        errors,
        consecutiveErrors,
        lastError,
      };
    });
  }
}
