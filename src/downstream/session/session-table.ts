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
import { ClientSession, RETURN_MS } from './client-session.ts';

interface SessionTableDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly records: SessionRecords;
  readonly events: EventLog;
  readonly fingerprints: Fingerprints;
  readonly settings: () => SessionSettings;
  /** Whether memory is too low to open another session (F40). */
  readonly memoryScarce: () => boolean;
  /** Called for every session that ends for any reason, including those that only their records knew. */
  readonly onEnded: (sessionId: string) => void;
  readonly durations: Metric<Histogram>;
}

/** What a client declares at `initialize`. */
interface NewSession {
  readonly principal: Principal;
  readonly endpoint: Endpoint;
  readonly revision: Revision;
  readonly capabilities: string;
  readonly info: string | null;
  readonly forwarded?: ClientProfile['forwarded'];
  /** False for a session that begins and ends with one stream. */
  readonly persistent: boolean;
}

const SWEEP_MS = 15_000;
/** A sweep saves the time of last use if it is this much newer than the stored one. */
const SAVE_MS = 60_000;
/** How far the stored time of last use may lag behind. */
const LAG_MS = SAVE_MS + SWEEP_MS;
/** How often to look for expired stored sessions: after a restart nothing else finds those whose clients did not return. */
const CLEAN_MS = 5 * 60_000;
/** At the limit, a session that is unused for this long makes room for a new one. */
const YIELD_MS = 5 * 60_000;
const RETRY_AFTER_MS = 10_000;
const REPLACED_BY_NEWER = 'the session made room for a newer one';

/**
 * The sessions that this process holds: a cache of the shared records, and the live part of each session. An unknown id may
 * name a session of another process, or of this node before a restart, so its record is looked up; the record names the
 * owner. One sweep expires unused sessions, because most clients never end theirs.
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

  /** Wall-clock time, for display. */
  wall(): number {
    return this.#deps.clock.wall();
  }

  values(): IterableIterator<ClientSession> {
    return this.#sessions.values();
  }

  /** Throws OVERLOADED if memory is too low, or if the caller or the gateway has reached its limit of sessions. */
  create(wanted: NewSession): ClientSession {
    if (this.#deps.memoryScarce()) {
      throw new GatewayError('OVERLOADED', 'memory is too short for another session', { retryAfterMs: RETRY_AFTER_MS });
    }
    this.#ensureCapacityFor(wanted.principal, true);
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
      ...(wanted.persistent ? {} : { passing: true }),
    };
    const session = new ClientSession(
      client,
      mcpSessionId,
      wanted.endpoint,
      wanted.persistent,
      this.#deps.clock.wall(),
      now,
    );
    this.#add(session);
    this.save(session, true);
    return session;
  }

  /** The session with this `Mcp-Session-Id`, if this process holds it. */
  find(mcpSessionId: string): ClientSession | undefined {
    return this.#byMcpSessionId.get(mcpSessionId);
  }

  /** The session with this `ClientSession.id`, if this process holds it. */
  get(id: string): ClientSession | undefined {
    return this.#sessions.get(id);
  }

  /**
   * Loads the session from the shared records; null for an id that is unknown or has expired. Without other nodes it
   * rejects with OVERLOADED as `create` does, because restored sessions count like new ones.
   */
  load(mcpSessionId: string, principal: Principal, endpoint: Endpoint): Promise<ClientSession | null> {
    // Session ids are 128 random bits in hex. Anything else needs no look-up.
    if (!/^[0-9a-f]{32}$/.test(mcpSessionId)) return Promise.resolve(null);
    // One look-up for callers with the same right to the session; another caller's look-up must not decide for the owner.
    const key = `${mcpSessionId} ${principal.id} ${endpoint.path}`;
    let loading = this.#loading.get(key);
    if (loading === undefined) {
      loading = this.#load(mcpSessionId, principal, endpoint).finally(() => this.#loading.delete(key));
      this.#loading.set(key, loading);
    }
    return loading;
  }

  /** Writes the record behind. Call it after each change of what the record holds. */
  save(session: ClientSession, isNew = false): void {
    if (!session.persistent || session.ended) return;
    session.savedUse = session.lastUsed;
    this.#deps.records.put(this.#recordOf(session), isNew);
  }

  /** As `save`. Returns null if no other node has to know, else resolves when all do. */
  saveEverywhere(session: ClientSession): Promise<void> | null {
    const { records } = this.#deps;
    if (records.putEverywhere === undefined || !session.persistent || session.ended) {
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
    if (session.persistent) {
      this.#deps.records.delete(session.id);
      if (session.mayHaveEvents) this.#deps.events.forget(session.id);
    }
    this.#deps.onEnded(session.id);
  }

  /** Ends sessions that no node used for `idleMs`, and saves later uses of the rest. Returns how many ended. */
  sweep(idleMs = this.#deps.settings().idleMs): number {
    const now = this.#deps.clock.now();
    const { census, current } = this.#deps.records;
    let ended = 0;
    for (const session of this.#sessions.values()) {
      if (!session.idle) {
        session.lastUsed = now;
        this.#abandonedWaits.sweep(session.exchanges, now);
      }
      const lagMs = session.persistent && census !== undefined ? LAG_MS : 0;
      if (now - session.lastUsed >= idleMs + lagMs && (!session.persistent || current !== false)) {
        this.end(session, 'the session was idle for too long');
        ended++;
      } else if (session.lastUsed - session.savedUse >= SAVE_MS) this.save(session);
    }
    return ended;
  }

  /** Removes stored sessions that expired while the gateway was down. Call it at start; then the sweep repeats it. */
  async clean(): Promise<void> {
    this.#cleanedAt = this.#deps.clock.now();
    for (const record of await this.#deps.records.all()) this.review(record);
  }

  /** Ends the session of the record if it has expired. */
  review(record: SessionRecord): void {
    if (this.#expired(record) && !this.#sessions.has(record.id)) this.forget(record.id);
  }

  /** Stops the sweep and saves the times of last use. The sessions persist in their records. */
  close(): void {
    this.#cancelSweep();
    for (const session of this.#sessions.values()) if (session.lastUsed !== session.savedUse) this.save(session);
  }

  #tick(): void {
    this.#cancelSweep = this.#deps.clock.after(SWEEP_MS, () => this.#tick());
    this.sweep();
    // A failed read is tried again by a later sweep.
    if (this.#deps.clock.now() - this.#cleanedAt >= CLEAN_MS) this.clean().catch(() => {});
  }

  async #load(mcpSessionId: string, principal: Principal, endpoint: Endpoint): Promise<ClientSession | null> {
    const id = digestOf(mcpSessionId);
    const record = await this.#deps.records.get(id);
    const known = this.#sessions.get(id);
    if (known !== undefined) return known;
    if (record === null) return null;
    if (this.#expired(record)) {
      this.forget(id);
      return null;
    }
    // Another caller, or the owner on another endpoint, must not restore the session.
    if (record.principal !== principal.id || record.endpoint !== endpoint.path) return null;
    this.#ensureCapacityFor(principal, false);
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
    // A sweep saves the use by this request.
    session.savedUse -= Math.max(0, this.#deps.clock.wall() - record.lastSeenAt);
    this.#add(session);
    return session;
  }

  /** Applies a record that another process wrote, if this process holds the session. */
  applyRecord({ id, initialized, logLevel, lastSeenAt }: SessionRecord): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    const { clock } = this.#deps;
    if (initialized) session.initialized = true;
    const used = clock.now() - (clock.wall() - lastSeenAt);
    if (used > session.lastUsed) {
      // Use at another node keeps the session alive here; that node has saved it already.
      session.lastUsed = used;
      session.savedUse = used;
    }
    if (logLevel !== null && logLevel !== session.client.logLevel) session.logLevel = logLevel;
  }

  #expired(record: SessionRecord): boolean {
    const { clock, records, settings } = this.#deps;
    return records.current !== false && clock.wall() - record.lastSeenAt > settings().idleMs + LAG_MS;
  }

  forget(id: string): void {
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

  /** With other nodes this table is a cache that evicts at its limit; the cluster-wide number limits new sessions. */
  #ensureCapacityFor(principal: Principal, isNew: boolean): void {
    const { max, maxPerPrincipal } = this.#deps.settings();
    const { census } = this.#deps.records;
    if (census !== undefined) {
      if (isNew) {
        const own = this.#perPrincipal.of(principal.id);
        this.#ensureClusterCapacity(census, principal.id, own, maxPerPrincipal * census.nodes);
        this.#ensureClusterCapacity(census, null, this.#sessions.size, max * census.nodes);
      }
      if (this.#sessions.size >= max) this.#evictLongestIdle();
      return;
    }
    if (this.#perPrincipal.of(principal.id) >= maxPerPrincipal) this.#endLongestIdle(principal);
    if (this.#sessions.size >= max) this.#endLongestIdle(null);
  }

  /** `own`: sessions of this node, which the other nodes may not know yet. */
  #ensureClusterCapacity(census: SessionCensus, principal: string | null, own: number, most: number): void {
    if (Math.max(own, census.count(principal)) < most) return;
    // Nodes save uses late, and note that a session is in use only once per sweep.
    const oldest = census.longestUnused(principal, YIELD_MS + LAG_MS);
    if (oldest === null) throw full();
    const session = this.#sessions.get(oldest.id);
    if (session === undefined) this.forget(oldest.id);
    else this.end(session, REPLACED_BY_NEWER);
  }

  /** Evicts the session that is unused for longest. Its record stays, and is loaded again when its client returns. */
  #evictLongestIdle(): void {
    const now = this.#deps.clock.now();
    const session = this.#longestIdle((one) => one.persistent && !one.mayReturn(now));
    if (session === null) return;
    if (session.lastUsed !== session.savedUse) this.save(session);
    this.#remove(session);
  }

  /** Ends the session that is unused for longest, of this caller or of all; throws if none is idle enough. */
  #endLongestIdle(of: Principal | null): void {
    const oldest = this.#longestIdle(({ client }) => of === null || client.principal.id === of.id);
    if (oldest === null || this.#deps.clock.now() - oldest.lastUsed < YIELD_MS) throw full();
    this.end(oldest, REPLACED_BY_NEWER);
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

/** The id of a session everywhere but in its client's requests: neither the disk nor a log can reveal `Mcp-Session-Id`. */
function digestOf(mcpSessionId: string): string {
  return hash('sha256', mcpSessionId).slice(0, 32);
}

/**
 * Ends waits whose client is gone. A lost connection is no cancellation, so its call continues; but `tasks/result` only
 * waits, possibly for ever, and would keep its session from becoming idle. A client that returns later asks again: the task
 * itself continues.
 */
class AbandonedWaits {
  /** Monotonic time since when no client is connected. */
  readonly #since = new WeakMap<ClientExchange, number>();

  sweep(exchanges: ExchangeList, now: number): void {
    for (const exchange of exchanges.all()) {
      if (exchange.request.method !== 'tasks/result') continue;
      if (exchange.reply.isDisconnected !== true) {
        this.#since.delete(exchange);
        continue;
      }
      const since = this.#since.get(exchange) ?? now;
      this.#since.set(exchange, since);
      if (now - since >= RETURN_MS) exchange.cancel('the client has gone and did not come back');
    }
  }
}
