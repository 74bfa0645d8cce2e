import { GatewayError } from '../../model/gateway-error.ts';
import { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import { closedError, EraUnsupported } from '../connection/failures.ts';
import { NO_SESSION, type Tenancy, WARM, type WantedConnection } from '../connection/session-key.ts';
import { isAtRest } from '../supervision/state-machine.ts';
import { PooledConnections } from './pooled-connections.ts';
import { mayFit, type Slot } from './slot.ts';

/** A warm connection on which a server request waited this long is not assigned: the server would soon give up. */
const STALE_HOLD_MS = 20_000;
/** How long a listing may continue over a replaced warm connection. */
const LISTING_MS = 30_000;

/**
 * Opens the connections of one server, once per session key for all waiters. At most one has no owner (the warm connection):
 * the server was listed over it, and it is kept for the first client with the same capabilities.
 */
export class SessionPool extends PooledConnections {
  /** The connection under the key, opened if needed. `by`: the attempt that it is part of. Rejects with GatewayError. */
  async acquire(want: WantedConnection, by: Attempt | null = null): Promise<Connection> {
    const known = this.slots.get(want.key);
    if (known?.connection?.ready === true) return known.connection;
    if (known?.opening) {
      by?.follow(known.attempt);
      return known.opening;
    }
    const { warm } = this;
    if (want.tenancy.kind !== 'shared' && warm?.opening && mayFit(warm, want.profile, want.era)) {
      // The warm connection that is being opened may become this client's.
      by?.follow(warm.attempt);
      await warm.opening.catch(() => {});
      by?.unfollow(warm.attempt);
      return this.acquire(want, by);
    }
    this.admit(want);
    const slot: Slot = { ...want, connection: null, opening: null, attempt: new Attempt() };
    by?.follow(slot.attempt);
    const mayAdopt = want.tenancy.kind !== 'shared' && !this.parts.connector.needsOwn(want);
    const adopted = mayAdopt ? this.#takeWarm(want) : null;
    if (adopted === null) return this.#open(slot);
    slot.connection = adopted;
    this.slots.set(slot.key, slot);
    this.#give(adopted, slot);
    return adopted;
  }

  /** A connection without an owner, for listing. It replaces a warm connection of another era or with other capabilities. */
  async openWarm(
    want: Pick<WantedConnection, 'profile' | 'era' | 'dropped'>,
    attempt = new Attempt(),
  ): Promise<Connection> {
    const { profile, era } = want;
    const present = this.warm;
    const fits = present !== null && !present.attempt.cancelled && mayFit(present, profile, era);
    if (fits && present.connection?.ready === true) return present.connection;
    if (present?.opening) {
      attempt.place?.leave();
      attempt.follow(present.attempt);
      if (fits) return present.opening;
      // Wait for the other listing: one warm connection after the other.
      await present.opening.catch(() => {});
      return this.openWarm(want, attempt);
    }
    if (present !== null) void this.#endIdle(present);
    return this.#open({ ...want, key: NO_SESSION, tenancy: WARM, connection: null, opening: null, attempt });
  }

  /** The server's era shows that the warm connection is the one that all clients share: assigns it. */
  promoteWarm(key: string, tenancy: Tenancy): void {
    const { warm } = this;
    if (warm?.connection == null) return;
    const slot: Slot = { ...warm, era: warm.connection.era, key, tenancy };
    this.slots.delete(NO_SESSION);
    this.slots.set(key, slot);
    this.#give(warm.connection, slot);
  }

  /** Takes the warm connection for this client if it presents the same capabilities and no server request waited too long. */
  #takeWarm(want: WantedConnection): Connection | null {
    const { warm } = this;
    if (warm?.connection?.ready !== true || !mayFit(warm, want.profile, want.era)) return null;
    this.slots.delete(NO_SESSION);
    if (warm.connection.heldForMs <= STALE_HOLD_MS) return warm.connection;
    void this.end(warm, 'remove');
    return null;
  }

  #give(connection: Connection, slot: Slot): void {
    connection.adopt(slot.tenancy, slot.key, slot.profile.logLevel);
    connection.transport.adopted?.(slot.tenancy.kind === 'shared' ? null : slot.profile);
    this.parts.connector.remember(slot, connection);
    this.context.events.adopted(connection, slot);
  }

  /** Closes a replaced warm connection when no listing uses it. */
  async #endIdle(warm: Slot): Promise<void> {
    this.replaced.add(warm);
    // A listing that just received it begins in this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    await warm.connection?.drained(LISTING_MS);
    this.replaced.delete(warm);
    await this.end(warm, 'remove');
  }

  async #open(slot: Slot): Promise<Connection> {
    this.slots.set(slot.key, slot);
    this.opening.add(slot);
    slot.opening = this.#connect(slot).finally(() => {
      this.opening.delete(slot);
      slot.opening = null;
    });
    try {
      return await slot.opening;
    } catch (error) {
      if (this.slots.get(slot.key) === slot) this.slots.delete(slot.key);
      throw error;
    }
  }

  async #connect(slot: Slot): Promise<Connection> {
    const { starts } = this.parts;
    const { name: server } = this.context;
    const { attempt } = slot;
    // A session, and a singleton, has one process at a time.
    const earlier = slot.key === NO_SESSION ? [] : this.endings((key) => key === slot.key, 'remove');
    if (earlier.length > 0) await Promise.allSettled(earlier);
    await this.#takePlace(attempt);
    let connection: Connection;
    try {
      if (starts === null) attempt.begin();
      else await starts.take(attempt);
      connection = await this.#handshake(slot, attempt);
    } catch (error) {
      this.started(null);
      throw attempt.cancelled ? this.#unwanted() : error;
    } finally {
      attempt.place?.leave();
    }
    this.started(connection);
    if (!connection.ready) {
      this.stopCounting(connection);
      const { closedReason, transport } = connection;
      if (closedReason !== null) throw closedError(server, closedReason, transport.stderrTail());
      throw new GatewayError('NOT_SENT', `the connection to ${server} ended at once`);
    }
    if (this.slots.get(slot.key) !== slot) {
      attempt.setUndo((how) => void connection.close(how));
      await this.close(connection, attempt.closeReason);
      throw this.#unwanted();
    }
    slot.connection = connection;
    if (slot !== this.warm) this.#give(connection, slot);
    return connection;
  }

  async #handshake(want: WantedConnection, attempt: Attempt): Promise<Connection> {
    const { connector, eras, supervisor } = this.parts;
    const { name: server } = this.context;
    const { state } = supervisor;
    // Nothing would end a process that an attempt starts for a stopped server.
    if (state === 'stopping' || (isAtRest(state) && state !== 'unknown'))
      throw new GatewayError('CANCELLED', `${server} is stopped`, { server, outcome: 'NOT_SENT' });
    try {
      return await connector.connect(want, attempt, () => this.#takeWarm(want));
    } catch (error) {
      // A live stateful connection proves that the server speaks the era: then this is an ordinary failure.
      if (want.era === 'stateful' && eras.newest === 'stateless' && this.any('stateful') === null) {
        if (error instanceof EraUnsupported) eras.initializeRefused(error);
        else if (eras.acceptsBoth && !attempt.cancelled) eras.invalidate();
      }
      throw error;
    }
  }

  /** Reserves room. Rejects with GatewayError if there is none, for a waiting call after a short wait. */
  async #takePlace(attempt: Attempt): Promise<void> {
    const { quota } = this.parts;
    if (attempt.cancelled) throw this.#unwanted();
    const taken = quota === null ? this.reserve() : quota.place(attempt, () => this.reserve());
    // A start that waits for room must not hold a place in the start queue.
    if (typeof taken !== 'boolean') attempt.place?.leave();
    if (await taken) return;
    throw attempt.cancelled ? this.#unwanted() : this.capacityError();
  }

  /** The gateway cancelled the start: not a failure of the server. */
  #unwanted(): GatewayError {
    const { name: server } = this.context;
    const text = `the connection to ${server} is no longer wanted`;
    return new GatewayError('CANCELLED', text, { server, outcome: 'NOT_SENT' });
  }
}
