import { type ClientProfile, isolationOf } from '../../model/client-profile.ts';
import { GatewayError, OwnedElsewhere } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import { takesInput } from '../../protocol/stateless/input-required.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError, EraUnsupported } from '../connection/failures.ts';
import {
  isKeyOfPrincipal,
  isReplica,
  keysOfSession,
  NO_SESSION,
  SHARED,
  sessionKey,
  sessionOf,
  tenancyOf,
  type WantedConnection,
} from '../connection/session-key.ts';
import type { ServerContext, Whose } from '../server-context.ts';
import type { CloseReason } from '../transport/transport.ts';
import type { PoolParts } from './pooled-connections.ts';
import { Replicas } from './replica-set.ts';
import { SessionPool } from './session-pool.ts';

/** Sessions that wait for a connection. A connection opened for a session that ended meanwhile would never be released. */
export class WaitingSessions {
  readonly #waiting = new Map<string, { count: number; ended: boolean }>();

  /** Runs the work; if the session ends meanwhile, calls `release` after the last of its waiting work. */
  async during<T>(sessionId: string | null, work: () => Promise<T>, release: (sessionId: string) => void): Promise<T> {
    if (sessionId === null) return work();
    const entry = this.#waiting.get(sessionId) ?? { count: 0, ended: false };
    this.#waiting.set(sessionId, entry);
    entry.count++;
    try {
      return await work();
    } finally {
      if (--entry.count === 0) {
        this.#waiting.delete(sessionId);
        if (entry.ended) release(sessionId);
      }
    }
  }

  ended(sessionId: string): void {
    const entry = this.#waiting.get(sessionId);
    if (entry !== undefined) entry.ended = true;
  }
}

/** Delay before a node without a connection ends a shared session at the server: nodes with a connection end it first. */
const END_AFTER_MS = 2_000;
/** How long after its end a session gets no connection. A session that came back is served again after that. */
const RELEASED_MS = 5_000;
/** Few, because each server has them; a further one gets a process until that is idle for long. */
const MAX_RELEASED = 64;
/** Maximum of connections over which a client's calls are spread while requests of the server are open. */
const MAX_LANES = 4;

/**
 * Selects the connection of one server for a client's messages: in the client's era if the server speaks it, with the isolation
 * that the operator chose or that era needs.
 */
export class ClientConnections {
  readonly #waiting = new WaitingSessions();
  readonly pool: SessionPool;
  readonly replicas: Replicas;
  /** Connections that a crash ended, by session key; the next start of the server reopens them. */
  readonly lost = new Map<string, WantedConnection>();
  readonly #context: ServerContext;
  readonly #parts: PoolParts;
  /** When the sessions that ended last have ended: a request that was on its way opens no connection for them. */
  readonly #released = new Map<string, number>();
  /** Tests whether the server accepts `initialize`, on the connection of the first client that needs it. */
  #eraProbe: Promise<Connection> | null = null;

  constructor(context: ServerContext, parts: PoolParts) {
    this.#context = context;
    this.#parts = parts;
    this.pool = new SessionPool(context, parts);
    this.replicas = new Replicas(context, this.pool);
  }

  /** The key of the connection that serves the client's requests of this method; null while the era is unknown. */
  keyOf(client: ClientProfile, method = ''): string | null {
    const era = this.#parts.eras.eraFor(client);
    if (era === null) return null;
    const replicas = this.replicas.of(era);
    if (replicas !== null) return replicas.replicaFor(client, method).key;
    return sessionKey(client, isolationOf(this.#context.server, era), era);
  }

  /** The client's connection if calls can be sent on it now; `method`: that of the request, empty without one. */
  ready(client: ClientProfile, method = ''): Connection | null {
    const key = this.keyOf(client, method);
    if (key === null) return null;
    const connection = this.pool.ready(key);
    return this.#mustAvoid(connection, method) ? this.pool.ready(this.#lane(key)) : connection;
  }

  /** Whether a request must avoid this connection, where a server request is open; never with isolation `principal`. */
  #mustAvoid(connection: Connection | null, method: string): boolean {
    return connection?.engaged === true && takesInput(method) && this.#context.server.isolation !== 'principal';
  }

  /** The client's connection, opened if needed. `by`: as in `SessionPool.acquire`. Rejects with GatewayError. */
  acquire(client: ClientProfile, method = '', by: Attempt | null = null): Promise<Connection> {
    return this.#inEra(client, (era) => {
      const wanted = this.#wanted(client, era, method);
      const first = this.pool.ready(wanted.key);
      if (first === null && this.#hasEnded(sessionOf(wanted.tenancy))) return Promise.reject(this.#ended());
      if (first === null || !this.#mustAvoid(first, method)) return this.pool.acquire(wanted, by);
      const tenancy = isReplica(wanted.tenancy) ? SHARED : wanted.tenancy;
      // Sharing the first connection, with refused server requests, is better than waiting for room or failing.
      const patient = this.pool.capacity === 'none' ? null : by;
      const aside = this.pool.acquire({ ...wanted, tenancy, key: this.#lane(wanted.key) }, patient);
      return aside.catch((error) => {
        if (error instanceof GatewayError && error.code === 'OVERLOADED' && first.ready) return first;
        throw error;
      });
    });
  }

  /** The first lane without an open server request, which could not be attributed on a shared pipe; the last lane is shared. */
  #lane(key: string): string {
    for (let lane = 2; lane < MAX_LANES; lane++) {
      if (this.pool.ready(`${key} lane ${lane}`)?.engaged !== true) return `${key} lane ${lane}`;
    }
    return `${key} lane ${MAX_LANES}`;
  }

  /** Determines the client's era, if that needs a connection. Rejects with GatewayError. */
  async settle(client: ClientProfile): Promise<void> {
    if (this.#parts.eras.eraFor(client) === null) await this.#inEra(client, (era) => this.forListing(client, era));
  }

  /** A connection to list the server over for this kind of client; never one that only a session needs. */
  async forListing(profile: ClientProfile, era: Era): Promise<Connection> {
    if (isolationOf(this.#context.server, era) === 'shared') {
      return this.replicas.of(era)?.any() ?? this.pool.acquire(this.#wanted(profile, era));
    }
    // A session may have changed its process, which is not visible to other clients.
    const unused = this.#parts.quota !== null;
    const live = era === 'stateless' ? this.pool.any(era) : this.pool.presenting(profile.fingerprint, era, unused);
    return live ?? this.pool.openWarm({ profile, era });
  }

  /** The first connection of a start: in this era if the server is known to speak it, else in the server's. */
  async first(profile: ClientProfile, wish: Era | null, attempt: Attempt): Promise<Connection> {
    const { connector, eras } = this.#parts;
    eras.restarted();
    const known = wish === 'stateful' && (eras.newest === 'stateful' || eras.acceptsBoth);
    const want = this.#wanted(profile, 'stateful');
    if (eras.newest !== 'stateless' || known) {
      const opened = connector.resumable(want) || (await connector.opened(want));
      if (opened) return this.pool.acquire(want);
    }
    const presented = this.#context.server.isolation === 'shared' ? this.#context.placeholderProfile : profile;
    const warm = { profile: presented, era: known ? ('stateful' as const) : null };
    const connection = await this.pool.openWarm(warm, attempt).catch((error) => {
      if (error instanceof EraUnsupported) return this.pool.openWarm({ ...warm, era: null }, attempt);
      throw error;
    });
    const { era } = connection;
    if (isolationOf(this.#context.server, era) !== 'shared') return connection;
    const shared = this.#wanted(profile, era);
    if (!connector.usesSharedSession(shared)) {
      this.pool.promoteWarm(shared.key, shared.tenancy);
      return connection;
    }
    const joined = await this.pool.acquire(shared);
    void this.pool.release(NO_SESSION);
    return joined;
  }

  /**
   * Reopens what a crash ended, as parts of this attempt; resolves with the first open connection, or null. Processes hold
   * state and start at once; HTTP sessions wait for their client's next call. Rejects if all of them fail.
   */
  async reopenLost(attempt: Attempt): Promise<Connection | null> {
    const wanted = [...this.lost.values()].filter(({ tenancy }) => this.#context.local || tenancy.kind === 'shared');
    this.lost.clear();
    try {
      return await Promise.any(wanted.map(async (want) => (await this.#reopen(want, attempt)) ?? Promise.reject(null)));
    } catch (error) {
      const failed = (error as AggregateError).errors.find((cause) => cause !== null);
      if (failed !== undefined) throw failed;
      return null;
    }
  }

  async #reopen(want: WantedConnection, attempt: Attempt): Promise<Connection | null> {
    try {
      return await this.pool.acquire(want, attempt);
    } catch (cause) {
      const error = asGatewayError(cause, this.#context.name);
      if (error.code === 'OVERLOADED' || error.code === 'CANCELLED') return null;
      if (error instanceof EraUnsupported || error instanceof OwnedElsewhere) return null;
      this.lost.set(want.key, want);
      throw error;
    }
  }

  /** The profile whose catalog the client sees: a shared stateful connection presents no client's capabilities. */
  listedAs(client: ClientProfile): ClientProfile {
    const era = this.#parts.eras.eraFor(client);
    const isolation = era === null ? this.#context.server.isolation : isolationOf(this.#context.server, era);
    return isolation === 'shared' && era !== 'stateless' ? this.#context.placeholderProfile : client;
  }

  /** Runs work that waits for the client's connection; a session that ends meanwhile keeps no connection. */
  whileWaiting<T>(client: ClientProfile, work: () => Promise<T>): Promise<T> {
    return this.#waiting.during(client.sessionId, work, (sessionId) => this.release(sessionId));
  }

  release(sessionId: string): void {
    const { connector, eras } = this.#parts;
    const { placeholderProfile, deps, server } = this.#context;
    const keepsSessions = server.transport.type === 'http' && isolationOf(server, 'stateful') === 'session';
    const mayHaveOne = keepsSessions && (eras.newest !== 'stateless' || eras.acceptsBoth);
    this.#waiting.ended(sessionId);
    this.#released.delete(sessionId);
    this.#released.set(sessionId, deps.clock.now());
    if (this.#released.size > MAX_RELEASED) this.#released.delete(this.#released.keys().next().value!);
    for (const [key, { tenancy }] of this.lost) if (sessionOf(tenancy) === sessionId) this.lost.delete(key);
    this.replicas.release(sessionId);
    for (const key of keysOfSession(sessionId)) {
      const released = this.pool.release(key);
      if (released === null && key === sessionId && mayHaveOne) {
        // The server may still have a session; nodes with a connection on it end it first.
        const end = (): void => void connector.end(key, placeholderProfile);
        if (connector.sharing) deps.clock.after(END_AFTER_MS, end);
        else end();
      } else connector.forget(key);
    }
  }

  /** Closes these connections (by session key) and does not reopen them: another node owns them now, or will. */
  surrender(keys: (key: string) => boolean, how: CloseReason): Promise<void> {
    for (const key of this.lost.keys()) if (keys(key)) this.lost.delete(key);
    return this.pool.surrender(keys, how);
  }

  /** Returns a filter of session keys: those of this client, of a removed principal, of the warm connection, or (null) all. */
  keyFilter(whose: Whose | null): (key: string) => boolean {
    if (whose === null) return () => true;
    if (whose === 'spare') return (key) => key === NO_SESSION;
    if ('removed' in whose) return (key) => isKeyOfPrincipal(key, whose.removed);
    const isolation = this.#context.server.isolation === 'principal' ? 'principal' : 'session';
    const [old, modern] = [sessionKey(whose, isolation, 'stateful'), sessionKey(whose, isolation, 'stateless')];
    const lanes = [`${old} lane `, `${modern} lane `];
    return (key) => key === old || key === modern || lanes.some((lane) => key.startsWith(lane));
  }

  /**
   * Opens a connection in the client's era. If that is unknown, the first client opens its own stateful connection and others
   * wait for the result. If the server does not accept `initialize`, all clients are served in its own era.
   */
  async #inEra(client: ClientProfile, open: (era: Era) => Promise<Connection>): Promise<Connection> {
    for (;;) {
      const era = this.#parts.eras.eraFor(client);
      const joined = era === null ? this.#eraProbe : null;
      try {
        if (joined !== null) await joined;
        else if (era !== null) return await open(era);
        else {
          this.#eraProbe = open('stateful').finally(() => {
            this.#eraProbe = null;
          });
          return await this.#eraProbe;
        }
      } catch (error) {
        if (error instanceof EraUnsupported && this.#parts.eras.eraFor(client) === 'stateless') continue;
        const calledOff = error instanceof GatewayError && error.code === 'CANCELLED';
        if (joined === null || !calledOff) throw error;
      }
    }
  }

  #hasEnded(sessionId: string | null): boolean {
    const endedAt = this.#released.get(sessionId ?? '');
    return endedAt !== undefined && this.#context.deps.clock.now() - endedAt < RELEASED_MS;
  }

  #ended(): GatewayError {
    const { name: server } = this.#context;
    return new GatewayError('CANCELLED', 'the session of the client has ended', { server, outcome: 'NOT_SENT' });
  }

  #wanted(client: ClientProfile, era: Era, method = ''): WantedConnection {
    const replicas = this.replicas.of(era);
    if (replicas !== null) return replicas.replicaFor(client, method).wanted;
    const isolation = isolationOf(this.#context.server, era);
    const key = sessionKey(client, isolation, era);
    if (isolation === 'shared') return { key, era, tenancy: SHARED, profile: this.#context.placeholderProfile };
    return { key, era, tenancy: tenancyOf(client, isolation), profile: client };
  }
}
