import { hash } from 'node:crypto';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import type { SessionSettings } from '../../model/desired-state.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { isRevision, LATEST_STATEFUL, type Revision } from '../../model/message.ts';
import type { EventLog, SessionCensus, SessionRecord, SessionRecords } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { isLogLevel } from '../../protocol/meta-keys.ts';
import type { Histogram, Metric } from '../../telemetry/metrics.ts';
import type { Fingerprints } from '../endpoints/fingerprints.ts';
import type { ClientExchange, ExchangeList } from './client-exchange.ts';
import { ClientSession } from './client-session.ts';

interface SessionTableDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly records: SessionRecords;
  readonly events: EventLog;
  readonly fingerprints: Fingerprints;
  readonly settings: () => SessionSettings;
  /** Whether memory is too short for another session (F40). */
  readonly memoryScarce: () => boolean;
  /** Called once for every session that ended, for any reason; also for those that only their records knew. */
  readonly onEnded: (sessionId: string) => void;
  readonly durations: Metric<Histogram>;
}

/** What a client says of itself at `initialize`. */
interface NewSession {
  readonly principal: Principal;
  readonly endpoint: Endpoint;
  readonly revision: Revision;
  readonly capabilities: string;
  readonly info: string | null;
  readonly forwarded?: ClientProfile['forwarded'];
  /** False for a session that lives and dies with one stream. */
  readonly lasting: boolean;
}

const SWEEP_MS = 15_000;
/** How far the stored time of last use may lag behind. */
const SAVE_MS = 60_000;
/** How often stored sessions that no client came back for are looked for: after a restart nothing else finds them. */
const CLEAN_MS = 5 * 60_000;
/** At the cap, a session unused for this long makes room for a new one. */
const YIELD_MS = 5 * 60_000;
const RETRY_AFTER_MS = 10_000;
const MADE_ROOM = 'the session made room for a newer one';

/**
 * The sessions this process knows: a cache of the shared records, and the live part of each. An id that is not here
 * may still be a session that another process opened, or this one before a restart, so it is looked up; the stored
 * record says whose it is. One sweep for all expires unused ones: most clients never end their sessions.
 */
export class SessionTable {
  readonly #deps: SessionTableDeps;
  readonly #sessions = new Map<string, ClientSession>();
  readonly #byMcpSessionId = new Map<string, ClientSession>();
  readonly #perPrincipal = new Counts();
  readonly #loading = new Map<string, Promise<ClientSession | null>>();
  readonly #abandonedWaits = new AbandonedWaits();
  #cancelSweep: () => void;
  #cleanedAt: number;

  constructor(deps: SessionTableDeps) {
    this.#deps = deps;
    this.#cleanedAt = deps.clock.now();
    this.#cancelSweep = deps.clock.after(SWEEP_MS, () => this.#tick());
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Wall clock, for people. */
  wall(): number {
    return this.#deps.clock.wall();
  }

  values(): IterableIterator<ClientSession> {
    return this.#sessions.values();
  }

  /** Throws OVERLOADED when the caller, or the gateway, has as many sessions as it may have, or as memory allows. */
  create(wanted: NewSession): ClientSession {
    if (this.#deps.memoryScarce()) {
      throw new GatewayError('OVERLOADED', 'memory is too short for another session', { retryAfterMs: RETRY_AFTER_MS });
    }
    this.#makeRoomFor(wanted.principal, true);
    const now = this.#deps.clock.now();
    const mcpSessionId = this.#deps.random.hex(16);
    const client: ClientProfile = {
      principal: wanted.principal,
      sessionId: digestOf(mcpSessionId),
      revision: wanted.revision,
      capabilities: wanted.capabilities,
      fingerprint: this.#deps.fingerprints.of(wanted.capabilities),
      info: wanted.info,
      logLevel: null,
      handle: null,
      forwarded: wanted.forwarded,
      ...(wanted.lasting ? {} : { passing: true }),
    };
    const session = new ClientSession(
      client,
      mcpSessionId,
      wanted.endpoint,
      wanted.lasting,
      this.#deps.clock.wall(),
      now,
    );
    this.#add(session);
    this.save(session, true);
    return session;
  }

  /** The session that a client presents this id of, if this process has it at hand. */
  find(mcpSessionId: string): ClientSession | undefined {
    return this.#byMcpSessionId.get(mcpSessionId);
  }

  /** The session of this `ClientSession.id`, if this process has it at hand. */
  get(id: string): ClientSession | undefined {
    return this.#sessions.get(id);
  }

  /**
   * The session from the shared records; null for an id that is none, or no longer. Without other nodes it rejects with
   * OVERLOADED as `create` throws it: what comes back after a restart counts like what is new.
   */
  load(mcpSessionId: string, principal: Principal, endpoint: Endpoint): Promise<ClientSession | null> {
    // Our ids are 128 random bits in hex. Anything else needs no look-up.
    if (!/^[0-9a-f]{32}$/.test(mcpSessionId)) return Promise.resolve(null);
    // One look-up for callers who have the same right to it; a stranger's must not answer for the owner's.
    const key = `${mcpSessionId} ${principal.id} ${endpoint.path}`;
    let loading = this.#loading.get(key);
    if (loading === undefined) {
      loading = this.#load(mcpSessionId, principal, endpoint).finally(() => this.#loading.delete(key));
      this.#loading.set(key, loading);
    }
    return loading;
  }

  /** Writes the record behind; call it after a change of what the record holds. */
  save(session: ClientSession, isNew = false): void {
    if (!session.lasting || session.ended) return;
    session.savedUse = session.lastUsed;
    this.#deps.records.put(this.#recordOf(session), isNew);
  }

  /** As `save`; null where no other node has to know, else resolves when all do. */
  saveEverywhere(session: ClientSession): Promise<void> | null {
    const { records } = this.#deps;
    if (records.putEverywhere === undefined || !session.lasting || session.ended) {
      this.save(session);
      return null;
    }
    session.savedUse = session.lastUsed;
    return records.putEverywhere(this.#recordOf(session));
  }

  end(session: ClientSession, reason: string): void {
    if (session.ended) return;
    session.ended = true;
    const livedMs = this.#deps.clock.wall() - session.createdAt;
    this.#deps.durations.of(session.client.revision).observe(livedMs / 1000);
    this.#remove(session);
    session.openAsks?.abandonAll(new GatewayError('CANCELLED', reason));
    session.exchanges.cancelAll(reason);
    session.channel?.close();
    for (const reply of session.replies?.values() ?? []) reply.hangUp();
    if (session.lasting) {
      this.#deps.records.delete(session.id);
      if (session.mayHaveEvents) this.#deps.events.forget(session.id);
    }
    this.#deps.onEnded(session.id);
  }

  /** Ends sessions that were not used for `idleMs`, and writes down later uses of the rest. Returns how many ended. */
  sweep(idleMs = this.#deps.settings().idleMs): number {
    const now = this.#deps.clock.now();
    let ended = 0;
    for (const session of this.#sessions.values()) {
      if (!session.idle) {
        session.lastUsed = now;
        this.#abandonedWaits.sweep(session.exchanges, now);
      }
      if (now - session.lastUsed >= idleMs) {
        this.end(session, 'the session was idle for too long');
        ended++;
      } else if (session.lastUsed - session.savedUse >= SAVE_MS) this.save(session);
    }
    return ended;
  }

  /** Removes stored sessions that expired while the gateway was down. To be called at start; then it goes on by itself. */
  async clean(): Promise<void> {
    this.#cleanedAt = this.#deps.clock.now();
    for (const record of await this.#deps.records.all()) this.review(record);
  }

  /** Ends it if it has expired. */
  review(record: SessionRecord): void {
    if (this.#expired(record) && !this.#sessions.has(record.id)) this.#forget(record.id);
  }

  /** Stops sweeping and writes the times of last use. The sessions live on in their records. */
  close(): void {
    this.#cancelSweep();
    for (const session of this.#sessions.values()) if (session.lastUsed !== session.savedUse) this.save(session);
  }

  #tick(): void {
    this.#cancelSweep = this.#deps.clock.after(SWEEP_MS, () => this.#tick());
    this.sweep();
    // What cannot be read now is looked for again.
    if (this.#deps.clock.now() - this.#cleanedAt >= CLEAN_MS) this.clean().catch(() => {});
  }

  async #load(mcpSessionId: string, principal: Principal, endpoint: Endpoint): Promise<ClientSession | null> {
    const id = digestOf(mcpSessionId);
    const record = await this.#deps.records.get(id);
    const known = this.#sessions.get(id);
    if (known !== undefined) return known;
    if (record === null) return null;
    if (this.#expired(record)) {
      this.#forget(id);
      return null;
    }
    // A stranger, or the right caller elsewhere, must not even bring the session to life.
    if (record.principal !== principal.id || record.endpoint !== endpoint.path) return null;
    this.#makeRoomFor(principal, false);
    const client: ClientProfile = {
      principal,
      sessionId: id,
      revision: isRevision(record.revision) ? record.revision : LATEST_STATEFUL,
      capabilities: record.capabilities,
      fingerprint: this.#deps.fingerprints.of(record.capabilities),
      info: record.info,
      logLevel: isLogLevel(record.logLevel) ? record.logLevel : null,
      handle: null,
    };
    const session = new ClientSession(client, mcpSessionId, endpoint, true, record.createdAt, this.#deps.clock.now());
    session.initialized = record.initialized;
    session.restored = true;
    this.#add(session);
    return session;
  }

  /** Another process has written this of a session that may be in use here as well. */
  heard({ id, initialized, logLevel, lastSeenAt }: SessionRecord): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    const { clock } = this.#deps;
    if (initialized) session.initialized = true;
    const used = clock.now() - (clock.wall() - lastSeenAt);
    if (used > session.lastUsed) {
      // Used there, it is not idle here; and that is written down already.
      session.lastUsed = used;
      session.savedUse = used;
    }
    if (logLevel !== null && logLevel !== session.client.logLevel) session.logLevel = logLevel;
  }

  #expired(record: SessionRecord): boolean {
    return this.#deps.clock.wall() - record.lastSeenAt > this.#deps.settings().idleMs + SAVE_MS;
  }

  #forget(id: string): void {
    this.#deps.records.delete(id);
    this.#deps.events.forget(id);
    this.#deps.onEnded(id);
  }

  #recordOf(session: ClientSession): SessionRecord {
    const { clock } = this.#deps;
    return {
      id: session.id,
      principal: session.client.principal.id,
      endpoint: session.endpoint.path,
      revision: session.client.revision,
      capabilities: session.client.capabilities,
      info: session.client.info,
      initialized: session.initialized,
      logLevel: session.client.logLevel,
      createdAt: session.createdAt,
      lastSeenAt: Math.round(clock.wall() - (clock.now() - session.lastUsed)),
    };
  }

  #add(session: ClientSession): void {
    this.#sessions.set(session.id, session);
    this.#byMcpSessionId.set(session.mcpSessionId, session);
    this.#perPrincipal.add(session.client.principal.id, 1);
  }

  /** With other nodes this table is a cache: it refuses and ends nothing. What limits new sessions is the number in the cluster. */
  #makeRoomFor(principal: Principal, isNew: boolean): void {
    const { max, maxPerPrincipal } = this.#deps.settings();
    const { census } = this.#deps.records;
    if (census !== undefined) {
      if (isNew) {
        const own = this.#perPrincipal.of(principal.id);
        this.#makeRoomInCluster(census, principal.id, own, maxPerPrincipal * census.nodes);
        this.#makeRoomInCluster(census, null, this.#sessions.size, max * census.nodes);
      }
      if (this.#sessions.size >= max) this.#putAway();
      return;
    }
    if (this.#perPrincipal.of(principal.id) >= maxPerPrincipal) this.#makeRoom(principal);
    if (this.#sessions.size >= max) this.#makeRoom(null);
  }

  /** `own`: those here, which the others may not have heard of yet. */
  #makeRoomInCluster(census: SessionCensus, principal: string | null, own: number, most: number): void {
    if (Math.max(own, census.count(principal)) < most) return;
    // The nodes write uses late, and none writes that a session is in use more often than it sweeps.
    const oldest = census.longestUnused(principal, YIELD_MS + SAVE_MS + SWEEP_MS);
    if (oldest === null) throw full();
    const session = this.#sessions.get(oldest.id);
    if (session === undefined) this.#forget(oldest.id);
    else this.end(session, MADE_ROOM);
  }

  /** Forgets the session here that was unused for longest: its record stays, and it comes back when its client does. */
  #putAway(): void {
    const session = this.#longestIdle(({ lasting }) => lasting);
    if (session === null) return;
    if (session.lastUsed !== session.savedUse) this.save(session);
    this.#remove(session);
  }

  /** Ends the session that was unused for longest, of this caller or of all; throws when none is idle enough. */
  #makeRoom(of: Principal | null): void {
    const oldest = this.#longestIdle(({ client }) => of === null || client.principal.id === of.id);
    if (oldest === null || this.#deps.clock.now() - oldest.lastUsed < YIELD_MS) throw full();
    this.end(oldest, MADE_ROOM);
  }

  #longestIdle(concerns: (session: ClientSession) => boolean): ClientSession | null {
    let oldest: ClientSession | null = null;
    for (const session of this.#sessions.values()) {
      if (!session.idle || !concerns(session)) continue;
      if (oldest === null || session.lastUsed < oldest.lastUsed) oldest = session;
    }
    return oldest;
  }

  #remove(session: ClientSession): void {
    this.#sessions.delete(session.id);
    this.#byMcpSessionId.delete(session.mcpSessionId);
    this.#perPrincipal.add(session.client.principal.id, -1);
  }
}

function full(): GatewayError {
  return new GatewayError('OVERLOADED', 'too many open sessions', { retryAfterMs: RETRY_AFTER_MS });
}

/** Everything but the client's own requests knows a session by this: neither the disk nor a log can give it away. */
function digestOf(mcpSessionId: string): string {
  return hash('sha256', mcpSessionId).slice(0, 32);
}

/** As long as the event log keeps what a client may come back to. */
const RETURN_MS = 5 * 60_000;

/**
 * Ends waits whose client has gone. A lost connection is no cancellation, so a call goes on; but `tasks/result` does
 * nothing except wait, possibly for ever, and would keep its session from ever being idle. A client that comes back later
 * asks again: the task itself goes on.
 */
class AbandonedWaits {
  /** Clock readings: since when no client has been seen. */
  readonly #since = new WeakMap<ClientExchange, number>();

  sweep(exchanges: ExchangeList, now: number): void {
    for (const exchange of exchanges.all()) {
      if (exchange.request.method !== 'tasks/result') continue;
      if (exchange.reply.unheard !== true) {
        this.#since.delete(exchange);
        continue;
      }
      const since = this.#since.get(exchange) ?? now;
      this.#since.set(exchange, since);
      if (now - since >= RETURN_MS) exchange.cancel('the client has gone and did not come back');
    }
  }
}
