import type { ClientProfile } from '../../model/client-profile.ts';
import type { Room } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { ConnectionStatus, ServerStatus } from '../../model/server-state.ts';
import { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import {
  isExclusive,
  labelOf,
  NO_SESSION,
  sessionOf,
  type Tenancy,
  WARM,
  type WantedConnection,
} from '../connection/session-key.ts';
import type { ServerContext, Swept } from '../server-context.ts';
import type { CloseReason } from '../transport/transport.ts';
import type { Yielding } from './process-quota.ts';
import { connectionStatus, longestUnused, mayFit, type Slot, type Unused } from './slot.ts';
import { SlotLife, type SlotParts } from './slot-life.ts';

/** A spare whose server has waited so long for an answer would give up soon after it got its client: not handed out. */
const STALE_HOLD_MS = 20_000;
/** How long a spare that was replaced may still be listed over. */
const LISTING_MS = 30_000;
/** A client whose stream has ended and that comes back within this time finds its process. As long as streams are kept. */
const GONE_MS = 5 * 60_000;

/**
 * The connections of one server by session key. SlotParts is single flight per key and takes no lock beyond it, so a
 * server that hangs for one client delays no other. At most one connection has no owner (the warm connection): the one the
 * server was listed over, kept for the first client with the same capabilities. At the limits the longest unused connection
 * is ended for a new one; where all are in use, a call waits a moment for one that becomes idle, and is then refused.
 */
export class SessionPool implements Yielding {
  readonly #context: ServerContext;
  readonly #by: SlotParts;
  readonly #life: SlotLife;
  readonly #slots = new Map<string, Slot>();
  #warm: Slot | null = null;
  /** Spares that were replaced and are still being listed over. */
  readonly #replaced = new Set<Slot>();

  constructor(context: ServerContext, by: SlotParts) {
    this.#context = context;
    this.#by = by;
    this.#life = new SlotLife(context, this, by);
  }

  wants(slot: Slot): boolean {
    return slot === this.#warm || this.#slots.get(slot.key) === slot;
  }

  opened(slot: Slot, connection: Connection): void {
    if (slot !== this.#warm) this.#give(connection, slot);
  }

  /** The connection under this key, if calls can be sent on it now. */
  ready(key: string): Connection | null {
    const connection = this.#slots.get(key)?.connection;
    return connection?.ready === true ? connection : null;
  }

  /** A live connection of this era that presents these capabilities, for lists; `unused`: one without a request so far. */
  presenting(fingerprint: string, era: Era, unused: boolean): Connection | null {
    for (const connection of this.#ready()) {
      if (unused && connection.use.requests > 0) continue;
      if (connection.era === era && connection.profile.fingerprint === fingerprint) return connection;
    }
    return null;
  }

  any(era?: Era): Connection | null {
    for (const connection of this.#ready()) if (era === undefined || connection.era === era) return connection;
    return null;
  }

  *#ready(): Iterable<Connection> {
    for (const connection of this.connections()) if (connection.ready) yield connection;
  }

  /** What a process for a new key would take. */
  get room(): Room {
    const { room } = this.#life;
    if (!room.full || this.#warm !== null) return 'free';
    const yields = room.serverFull ? this.longestUnused() !== null : this.#by.quota?.yields === true;
    return yields ? 'idle' : 'none';
  }

  keys(): Iterable<string> {
    return this.#slots.keys();
  }

  *connections(): Iterable<Connection> {
    if (this.#warm?.connection) yield this.#warm.connection;
    for (const { connection } of this.#slots.values()) if (connection !== null) yield connection;
  }

  /**
   * The connection under the key; opened, or the spare adopted, if there is none. `by`: the attempt that this is part of; it
   * has no place in the queue of starts. Rejects with GatewayError.
   */
  async acquire(want: WantedConnection, by: Attempt | null = null): Promise<Connection> {
    const known = this.#slots.get(want.key);
    if (known?.connection?.ready === true) return known.connection;
    if (known?.opening) {
      by?.follow(known.attempt);
      return known.opening;
    }
    const warm = this.#warm;
    if (want.tenancy.kind !== 'shared' && warm?.opening && mayFit(warm, want.profile, want.era)) {
      // What is being opened to list the server is this client's in a moment.
      by?.follow(warm.attempt);
      await warm.opening.catch(() => {});
      by?.unfollow(warm.attempt);
      return this.acquire(want, by);
    }
    const slot: Slot = { ...want, connection: null, opening: null, attempt: new Attempt() };
    by?.follow(slot.attempt);
    const adopted = this.#by.connector.needsOwn(this.#context.server, want) ? null : this.#adopt(slot);
    if (adopted !== null) return adopted;
    this.#slots.set(want.key, slot);
    try {
      return await this.#life.open(slot);
    } catch (error) {
      if (this.#slots.get(want.key) === slot) this.#slots.delete(want.key);
      throw error;
    }
  }

  /** A connection for lists without an owner yet. It replaces the warm connection of another era or other capabilities. */
  async openWarm(profile: ClientProfile, era: Era | null, attempt = new Attempt()): Promise<Connection> {
    const present = this.#warm;
    if (present !== null && !present.attempt.cancelled && mayFit(present, profile, era)) {
      if (present.connection?.ready === true) return present.connection;
      if (present.opening !== null) {
        attempt.place?.leave();
        attempt.follow(present.attempt);
        return present.opening;
      }
    }
    if (present?.opening) {
      // A client with other capabilities is about to list over it: one after the other.
      attempt.place?.leave();
      attempt.follow(present.attempt);
      await present.opening.catch(() => {});
      return this.openWarm(profile, era, attempt);
    }
    const slot: Slot = { key: NO_SESSION, era, tenancy: WARM, profile, connection: null, opening: null, attempt };
    this.#warm = slot;
    if (present !== null) void this.#endIdle(present);
    try {
      return await this.#life.open(slot);
    } catch (error) {
      if (this.#warm === slot) this.#warm = null;
      throw error;
    }
  }

  /** The spare turns out to be the one connection for all: the server's era says so. */
  promoteWarm(key: string, tenancy: Tenancy): void {
    const warm = this.#warm;
    if (warm?.connection == null) return;
    this.#warm = null;
    const slot: Slot = { ...warm, era: warm.connection.era, key, tenancy };
    this.#slots.set(key, slot);
    this.#give(warm.connection, slot);
  }

  /** The warm connection, for this client, if it presents the same capabilities and was not kept waiting too long. */
  takeWarm(want: WantedConnection): Connection | null {
    const warm = this.#warm;
    if (warm?.connection?.ready !== true || !mayFit(warm, want.profile, want.era)) return null;
    this.#warm = null;
    if (warm.connection.heldForMs <= STALE_HOLD_MS) return warm.connection;
    void this.#life.end(warm, 'remove');
    return null;
  }

  /** The connection ended by itself: forgets it and says whose it was; null when it was not pooled. */
  forget(connection: Connection): WantedConnection | null {
    this.#life.room.gone(connection);
    if (this.#warm?.connection === connection) {
      const warm = this.#warm;
      this.#warm = null;
      return warm;
    }
    for (const [key, slot] of this.#slots) {
      if (slot.connection !== connection) continue;
      this.#slots.delete(key);
      return slot;
    }
    return null;
  }

  /** The client session has ended: what was its own ends too, also while it is being opened. */
  release(key: string): Promise<void> | null {
    const slot = this.#slots.get(key);
    if (slot === undefined) return null;
    this.#slots.delete(key);
    return this.#life.end(slot, 'remove');
  }

  /**
   * Another node has them by now, or is to: they end, and so does what of them is ending already, or is still being opened.
   * Resolves when nothing is left of them.
   */
  async surrender(lost: (key: string) => boolean, how: CloseReason): Promise<void> {
    const left = [this.#life.hurry(lost, how)];
    for (const slot of [...this.#slots.values(), ...this.#warmSlots()]) {
      if (!lost(slot.key)) continue;
      if (slot === this.#warm) this.#warm = null;
      else this.#slots.delete(slot.key);
      left.push(this.#life.end(slot, how));
    }
    await Promise.all(left);
  }

  /** Ends the warm connection. */
  endWarm(): void {
    const warm = this.#warm;
    this.#warm = null;
    if (warm !== null) void this.#life.end(warm, 'remove');
  }

  /**
   * Closes what one session or principal has not used for long, sooner where a process waits for a client that is gone, and
   * whatever failed too often in a row (S1.7). A busy connection stays.
   */
  sweep(): void {
    const { clock } = this.#context.deps;
    const { idleTimeoutMs, maxErrors } = this.#context.limits.pool;
    for (const slot of [...this.#slots.values(), ...(this.#warm === null ? [] : [this.#warm])]) {
      const { connection, tenancy } = slot;
      if (connection === null || connection.busy) continue;
      const { consecutiveErrors, lastUsedAt } = connection.use;
      const sessionId = sessionOf(tenancy);
      const gone = connection.mcpSessionId === null && sessionId !== null && this.#context.clientGone(sessionId);
      const keptMs = gone ? Math.min(idleTimeoutMs, GONE_MS) : idleTimeoutMs;
      if (consecutiveErrors >= maxErrors) this.#giveUp(slot, connection, 'errors');
      else if (isExclusive(tenancy) && clock.now() - lastUsedAt > keptMs) this.#giveUp(slot, connection, 'idle');
    }
  }

  longestUnused(): Unused | null {
    return longestUnused([...this.#warmSlots(), ...this.#slots.values()], this.#context);
  }

  yieldOne(): boolean {
    const slot = this.longestUnused()?.slot;
    if (slot?.connection == null) return false;
    this.#life.room.gone(slot.connection);
    if (isExclusive(slot.tenancy) && slot.connection.era === 'stateful') this.#giveUp(slot, slot.connection, 'room');
    else {
      this.#forgetSlot(slot);
      void this.#life.close(slot.connection, 'remove');
    }
    return true;
  }

  /** Closes the connection with this label (S1.10); what is in flight on it is lost. False where there is none. */
  closeLabelled(label: string): boolean {
    for (const slot of [...this.#slots.values(), ...this.#warmSlots()]) {
      const { connection, tenancy } = slot;
      if (connection === null || labelOf(tenancy) !== label) continue;
      this.#giveUp(slot, connection, 'closed');
      return true;
    }
    return false;
  }

  #forgetSlot(slot: Slot): void {
    if (slot === this.#warm) this.#warm = null;
    else if (!this.#replaced.delete(slot)) this.#slots.delete(slot.key);
  }

  /** An HTTP session is left to its server, to be gone on with; a process takes its state along. */
  #giveUp(slot: Slot, connection: Connection, why: Swept['why']): void {
    this.#forgetSlot(slot);
    const resumable = (why === 'idle' || why === 'room') && connection.mcpSessionId !== null;
    void this.#life.close(connection, resumable ? 'shutdown' : 'remove');
    this.#context.events.swept({ want: slot, connection, why, resumable });
  }

  async drained(deadlineMs: number): Promise<void> {
    await Promise.all([...this.connections()].map((connection) => connection.drained(deadlineMs)));
  }

  async closeAll(how: CloseReason): Promise<void> {
    const slots = [...this.#slots.values(), ...this.#warmSlots()];
    for (const { connection } of slots) connection?.joined?.leaveWithServer();
    this.#slots.clear();
    this.#warm = null;
    this.#by.quota?.leave(this);
    await Promise.all(slots.map((slot) => this.#life.end(slot, how)));
  }

  get processes(): ServerStatus['processes'] {
    return this.#life.room.count;
  }

  statuses(): ConnectionStatus[] {
    const { name, deps } = this.#context;
    const offset = deps.clock.wall() - deps.clock.now();
    return [...this.connections(), ...this.#life.closing].map((connection) =>
      connectionStatus(connection, name, labelOf(connection.tenancy), offset),
    );
  }

  /** Also those that are being listed over for the last time. */
  *#warmSlots(): Iterable<Slot> {
    yield* this.#replaced;
    if (this.#warm !== null) yield this.#warm;
  }

  /** Gives the spare to the slot, if it fits. */
  #adopt(slot: Slot): Connection | null {
    const warm = slot.tenancy.kind === 'shared' ? null : this.takeWarm(slot);
    if (warm === null) return null;
    slot.connection = warm;
    this.#slots.set(slot.key, slot);
    this.#give(warm, slot);
    return warm;
  }

  #give(connection: Connection, slot: Slot): void {
    connection.adopt(slot.tenancy, slot.key, slot.profile.logLevel);
    connection.transport.adopted?.(slot.tenancy.kind === 'shared' ? null : slot.profile);
    this.#by.connector.remember(this.#context.server, slot, connection);
    this.#context.events.adopted(connection, slot);
  }

  /** Whether there is room below the limits, if need be by ending what is idle. */
  makeRoom(): boolean {
    const { room } = this.#life;
    while (room.full) {
      const made = room.serverFull ? this.yieldOne() : this.#by.quota?.makeRoom();
      if (made !== true) return false;
    }
    return true;
  }

  /** Ends a spare that was replaced once nothing is being listed over it. */
  async #endIdle(warm: Slot): Promise<void> {
    this.#replaced.add(warm);
    // A listing that has just been given it begins in this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    await warm.connection?.drained(LISTING_MS);
    this.#replaced.delete(warm);
    await this.#life.end(warm, 'remove');
  }
}
