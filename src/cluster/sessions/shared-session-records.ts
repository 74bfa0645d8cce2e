import type { StateRecord } from '../../bus/shared-state.ts';
import { pause } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionCensus, SessionRecord, SessionRecords } from '../../model/ports.ts';
import { atFirstNode, type FirstNodeDeps } from '../at-first-node.ts';
import type { ClusterDeps, SessionOpeners } from '../cluster-deps.ts';
import { LruMap } from '../lru-map.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { rendezvous } from '../nodes/rendezvous.ts';
import { ReplicationBarrier } from '../replication-barrier.ts';
import { SharedTable } from '../shared-table.ts';
import type { TableOwner } from '../table-owner.ts';
import { ClusterCounts } from './cluster-counts.ts';
import { bytesOf, recordIn, recordOf, type SessionFacts, SessionKinds, type StoredSession } from './session-facts.ts';

/** Pauses between reads: a client may arrive before the record that another node has just written. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400];
const READS_MS = 1_500;
const RETRY_MS = 1_000;
/**
 * After an outage nodes need a moment to write their pending records; a node that has just started cannot know of the outage.
 */
const SETTLES_MS = 3_000;
/** Lost records that the nodes write again in a millisecond, at least (decision 033). */
const RESTORED_PER_MS = 3;
/** After an outage, within which other nodes write how their sessions were used meanwhile. */
const CURRENT_MS = 10_000;
/** As `SETTLES_MS`, while the store can be read but not watched. */
const SETTLES_INCOMPLETE_MS = 10_000;
const SESSIONS = 'trunkline_sessions';
/** TTL of the bucket. Nodes write used sessions once a minute, and the sweep ends others far sooner. */
const KEPT_MS = 8 * 24 * 3_600_000;
/** The description of a client has at most 64 KiB; escapes may double it. */
const MAX_RECORD_BYTES = 256 * 1024;
/** Limit of pending writes: during an outage each used session waits to be written. */
const MAX_WAITING = 100_000;
/** Number of other nodes' sessions that a node keeps in memory. */
const MAX_CACHED = 32_768;
const REVIEW_MS = 3_600_000;

interface SharedSessionRecordsDeps extends Pick<ClusterDeps, 'bus' | 'state' | 'clock' | 'logger'> {
  /** `isGone` is false without the bus, so that a node that is only unreachable keeps its sessions. */
  readonly nodes: FirstNodeDeps['nodes'] & Pick<Nodes, 'isGone'>;
  readonly maxCached?: number;
}

/** The session table of this node. */
export interface SessionFollower {
  /** This or another node wrote the record. */
  changed(record: SessionRecord): void;
  /** The stored record may have expired. */
  reviewed(record: SessionRecord): void;
  gone(id: string): void;
}

/**
 * Client sessions of all nodes. A node keeps in memory the sessions that it counts, which it opened, and the most recently
 * written of the others; it reads the rest when their clients come (decision 091). While the store cannot be read, no session
 * counts as unknown; nodes write records again that the store has lost. A session ends only when a node deletes it.
 */
export class SharedSessionRecords implements SessionRecords, SessionCensus, SessionOpeners, TableOwner {
  readonly #deps: SharedSessionRecordsDeps;
  #follower: SessionFollower | null = null;
  readonly #table: SharedTable;
  readonly #everywhere: ReplicationBarrier;
  readonly #own = new Map<string, SessionFacts>();
  /** Sessions of other nodes, the most recently written last. */
  readonly #cached = new Map<string, SessionFacts>();
  readonly #maxCached: number;
  /** Peers that count sessions which this node has read, or written and not received yet. */
  readonly #openers: LruMap<string>;
  /** Sessions whose log level was set at this node, until it receives the record. */
  readonly #levelled = new Set<string>();
  readonly #kinds = new SessionKinds();
  /** Counts of the sessions in memory. */
  readonly #perPrincipal = new Counts();
  readonly #counts: ClusterCounts;
  readonly #stopReviewing: () => void;
  /** Until then other nodes may have pending records. */
  #settlesAt = Number.POSITIVE_INFINITY;
  #complete = false;
  #warned = false;
  #closed = false;
  #currentAt = 0;

  constructor(deps: SharedSessionRecordsDeps) {
    this.#deps = deps;
    const { bus, clock, nodes, maxCached = MAX_CACHED } = deps;
    this.#maxCached = maxCached;
    this.#openers = new LruMap(maxCached);
    const bounds = { maxValueBytes: MAX_RECORD_BYTES, maxWaiting: MAX_WAITING, newest: maxCached };
    const settings = { bucket: SESSIONS, ttlMs: KEPT_MS, mergesUnread: true, ...bounds };
    this.#table = new SharedTable(deps, settings, this);
    const counting = (): boolean => !this.#table.complete || this.#perPrincipal.total > maxCached;
    this.#counts = new ClusterCounts({ bus, clock, nodes, subject: 'trunkline.sessions', counting });
    this.#stopReviewing = atFirstNode(deps, REVIEW_MS, 'sessions_not_reviewed', () => this.#review());
    this.#everywhere = new ReplicationBarrier({ bus, clock, nodes, table: this.#table });
    bus.onEvent(({ type }) => {
      if (type === 'connected') this.#currentAt = clock.now() + CURRENT_MS;
    });
  }

  get current(): boolean {
    return this.#deps.bus.connected && this.#deps.clock.now() >= this.#currentAt;
  }

  get census(): SessionCensus {
    return this;
  }

  get nodes(): number {
    return this.#counts.nodes;
  }

  count(principal: string | null): number {
    const known = principal === null ? this.#perPrincipal.total : this.#perPrincipal.of(principal);
    return this.#table.complete ? known : Math.max(known, this.#counts.count(principal));
  }

  longestUnused(principal: string | null, unusedMs: number): SessionRecord | null {
    let found: readonly [string, SessionFacts] | null = null;
    let earliest = this.#deps.clock.wall() - unusedMs;
    for (const known of [this.#own, this.#cached]) {
      for (const [id, facts] of known) {
        const { kind, createdAt, seenAfterMs } = facts;
        if (createdAt + seenAfterMs > earliest || (principal !== null && kind.principal !== principal)) continue;
        found = [id, facts];
        earliest = createdAt + seenAfterMs;
      }
    }
    return found === null ? null : recordOf(...found);
  }

  /** Connects the session table of this node, which learns of changes. */
  follow(follower: SessionFollower): void {
    this.#follower = follower;
  }

  /**
   * Rejects with GatewayError NOT_SENT if the session is unknown here and the store cannot be read, or other nodes may have
   * pending records.
   */
  async get(id: string): Promise<SessionRecord | null> {
    const { clock } = this.#deps;
    let readError: unknown = null;
    const end = clock.now() + READS_MS;
    for (const waitMs of [0, ...LOOKS_MS]) {
      if (waitMs > 0) await pause(clock, waitMs);
      if (this.#closed) return null;
      const waiting = this.#table.waiting(id);
      if (waiting !== undefined) return waiting === null ? null : recordIn(waiting);
      const known = this.#factsOf(id);
      if (known !== undefined) {
        // Other sessions may evict it from memory while its client is here.
        if (known.kind.by !== undefined) this.#openers.set(id, known.kind.by);
        return recordOf(id, known);
      }
      try {
        const found = await this.#table.bucket.get(id);
        readError = null;
        this.#answers(true);
        const record = found === null ? null : recordIn(found.value);
        if (record?.by !== undefined) this.#openers.set(id, record.by);
        if (found !== null) return record;
      } catch (error) {
        readError = error;
        this.#answers(false);
        if (clock.now() >= end) break;
      }
    }
    if (readError === null && clock.now() >= this.#settlesAt) {
      this.#warnUnlessComplete();
      return null;
    }
    const text =
      readError === null
        ? "this node has not read the cluster's sessions yet"
        : 'the sessions of the cluster cannot be read at the moment';
    throw new GatewayError('NOT_SENT', text, { retryable: true, retryAfterMs: RETRY_MS, cause: readError });
  }

  openerOf(id: string): string | null {
    return this.#factsOf(id)?.kind.by ?? this.#openers.get(id) ?? null;
  }

  passOn(id: string): void {
    const facts = this.#factsOf(id);
    if (facts?.kind.by === undefined || this.#table.waiting(id) !== undefined) return;
    if (this.#deps.nodes.isGone(facts.kind.by)) this.put(recordOf(id, facts));
  }

  put(record: SessionRecord): void {
    const known = this.#factsOf(record.id);
    if (known !== undefined && known.kind.logLevel !== record.logLevel) this.#levelled.add(record.id);
    const by = this.#counterOf(record.id, this.openerOf(record.id) ?? this.#deps.bus.peer);
    this.#openers.set(record.id, by);
    this.#table.put(record.id, bytesOf(record, by));
  }

  /** Undoes nothing that other nodes wrote, and does not change which of them counts the session. */
  merged(id: string, value: Buffer, there: Buffer): Buffer {
    const [ours, theirs] = [recordIn(value), recordIn(there)];
    if (ours === null || theirs === null) return value;
    const by = theirs.by === undefined ? ours.by : this.#counterOf(id, theirs.by);
    if (by !== undefined) this.#openers.set(id, by);
    const initialized = ours.initialized || theirs.initialized;
    const lastSeenAt = Math.max(ours.lastSeenAt, theirs.lastSeenAt);
    return bytesOf({ ...ours, initialized, lastSeenAt, logLevel: this.#levelOf(ours, theirs) }, by);
  }

  /** The level that a client set; if it set one at each node, that of the later use. */
  #levelOf(ours: StoredSession, theirs: StoredSession): string | null {
    const before = this.#factsOf(ours.id)?.kind.logLevel;
    if (before !== undefined && !this.#levelled.has(ours.id)) return theirs.logLevel;
    return theirs.logLevel === before || ours.lastSeenAt >= theirs.lastSeenAt ? ours.logLevel : theirs.logLevel;
  }

  /** Returns `by`; if that node is gone, the node that rendezvous hashing chooses instead. */
  #counterOf(id: string, by: string): string {
    const { bus, nodes } = this.#deps;
    if (!nodes.isGone(by)) return by;
    return rendezvous(id, [bus.peer, ...Array.from(nodes.others(), ({ peer }) => peer)])!;
  }

  putEverywhere(record: SessionRecord): Promise<void> {
    this.put(record);
    return this.#everywhere.put(record.id);
  }

  /** The session ends here at once, even if the store takes the deletion later. */
  delete(id: string): void {
    this.#keep(id, null);
    this.#table.put(id, null);
  }

  async all(): Promise<readonly SessionRecord[]> {
    return Array.from([...this.#own, ...this.#cached], (known) => recordOf(...known));
  }

  /** Rejects if the store does not answer. */
  async visit(visitor: (record: SessionRecord) => boolean): Promise<void> {
    if ((await this.all()).some(visitor) || this.#table.complete) return;
    let found = false;
    const { promise, resolve } = Promise.withResolvers<void>();
    const watch = await this.#table.bucket.watch('>', {
      put: ({ key, value }) => {
        const record = found || this.#factsOf(key) !== undefined ? null : recordIn(value);
        found ||= record !== null && visitor(record);
        if (found) resolve();
      },
      gone: () => {},
      onReady: () => resolve(),
    });
    await promise;
    watch.close();
  }

  async close(): Promise<void> {
    this.#stopReviewing();
    this.#counts.close();
    await this.#table.close();
    this.#everywhere.close();
    this.#closed = true;
  }

  /** A store that can be read shows which sessions do not exist, even if it cannot be watched. */
  #answers(does: boolean): void {
    if (this.#complete) return;
    if (!does) this.#settlesAt = Number.POSITIVE_INFINITY;
    else this.#settlesAt = Math.min(this.#settlesAt, this.#deps.clock.now() + SETTLES_INCOMPLETE_MS);
  }

  #warnUnlessComplete(): void {
    if (this.#complete || this.#warned) return;
    this.#warned = true;
    this.#deps.logger.warn('sessions_not_followed', { bucket: SESSIONS });
  }

  received({ key: id, value }: StateRecord, again: boolean): void {
    const read = recordIn(value);
    if (read?.id !== id) return;
    const facts = this.#kinds.factsOf(read);
    const before = again ? this.#factsOf(id) : undefined;
    if (before !== undefined && before.kind !== facts.kind && before.seenAfterMs > facts.seenAfterMs) {
      // A node with an older version restored the record first.
      this.put(recordOf(id, before));
      return;
    }
    this.#keep(id, facts);
    this.#follower?.changed(recordOf(id, facts));
  }

  gone(id: string): void {
    this.#keep(id, null);
    this.#follower?.gone(id);
  }

  #keep(id: string, facts: SessionFacts | null): void {
    this.#forget(id);
    if (facts === null) return;
    const { principal, by } = facts.kind;
    this.#perPrincipal.add(principal, 1);
    if (by === this.#deps.bus.peer) {
      this.#own.set(id, facts);
      this.#counts.own.add(principal, 1);
      return;
    }
    this.#cached.set(id, facts);
    if (this.#cached.size <= this.#maxCached) return;
    const oldest = this.#cached.keys().next().value!;
    this.#forget(oldest);
    this.#table.drop(oldest);
  }

  #forget(id: string): void {
    this.#levelled.delete(id);
    const before = this.#factsOf(id);
    if (before === undefined) return;
    this.#perPrincipal.add(before.kind.principal, -1);
    if (this.#own.delete(id)) this.#counts.own.add(before.kind.principal, -1);
    else this.#cached.delete(id);
  }

  #factsOf(id: string): SessionFacts | undefined {
    return this.#own.get(id) ?? this.#cached.get(id);
  }

  /** Each node sweeps the sessions in its memory; one node reviews the rest. */
  async #review(): Promise<void> {
    const visitor = (record: SessionRecord): boolean => {
      this.#follower?.reviewed(record);
      return false;
    };
    if (!this.#table.complete) await this.visit(visitor);
  }

  listingEnded(lost: number): void {
    this.#complete = true;
    this.#settlesAt = this.#deps.clock.now() + SETTLES_MS + lost / RESTORED_PER_MS;
  }

  recall(id: string, lost: boolean): Buffer | null {
    const facts = this.#factsOf(id);
    if (facts === undefined) return null;
    if (lost || this.#own.has(id)) return bytesOf(recordOf(id, facts), facts.kind.by);
    this.#forget(id);
    return null;
  }
}
