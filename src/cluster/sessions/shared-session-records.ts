import type { Bus } from '../../bus/bus.ts';
import type { SharedState, StateRecord } from '../../bus/shared-state.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionCensus, SessionRecord, SessionRecords } from '../../model/ports.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { ReplicationBarrier } from '../replication-barrier.ts';
import { SharedTable, type TableOwner } from '../shared-table.ts';

/** A record written moments ago may arrive after its client. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400];
const READS_MS = 1_500;
const AGAIN_MS = 1_000;
/**
 * After an outage nodes need a moment to write what they could not; a node that has just started cannot know that there was one.
 */
const SETTLES_MS = 3_000;
/** While sessions can be read but not followed. */
const SETTLES_INCOMPLETE_MS = 10_000;
const SESSIONS = 'trunkline_sessions';
/** Used sessions are written once a minute, and the sweep ends others far sooner. */
const KEPT_MS = 8 * 24 * 3_600_000;
/** The text of a client is at most 64 KiB; escapes double it. */
const MAX_RECORD_BYTES = 256 * 1024;
/** During an outage each used session waits to be written. */
const MAX_WAITING = 100_000;

interface SharedSessionRecordsDeps {
  readonly bus: Bus;
  readonly others: () => readonly string[];
  readonly state: SharedState;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The sessions of this node. */
export interface SessionFollower {
  /** At this node or another. */
  changed(record: SessionRecord): void;
  gone(id: string): void;
}

/**
 * Client sessions, known to all nodes. While the store cannot be read, no session is called unknown; what it has lost, nodes
 * write again. Sessions end only by a client or the sweep.
 */
export class SharedSessionRecords implements SessionRecords, SessionCensus, TableOwner {
  readonly #deps: SharedSessionRecordsDeps;
  #follower: SessionFollower | null = null;
  readonly #table: SharedTable;
  readonly #everywhere: ReplicationBarrier;
  readonly #known = new Map<string, SessionFacts>();
  readonly #kinds = new SessionKinds();
  readonly #perPrincipal = new Counts();
  /** Until then other nodes may not have written all that they know. */
  #settlesAt = Number.POSITIVE_INFINITY;
  #complete = false;
  #warned = false;
  #closed = false;

  constructor(deps: SharedSessionRecordsDeps) {
    this.#deps = deps;
    const { bus, clock, others } = deps;
    const settings = { bucket: SESSIONS, ttlMs: KEPT_MS, maxValueBytes: MAX_RECORD_BYTES, maxWaiting: MAX_WAITING };
    this.#table = new SharedTable(deps, settings, this);
    this.#everywhere = new ReplicationBarrier({ bus, clock, others, name: 'sessions', progress: this.#table.progress });
  }

  get census(): SessionCensus {
    return this;
  }

  get nodes(): number {
    return this.#deps.others().length + 1;
  }

  count(principal: string | null): number {
    return principal === null ? this.#known.size : this.#perPrincipal.of(principal);
  }

  longestUnused(principal: string | null, unusedMs: number): SessionRecord | null {
    let found: string | null = null;
    let earliest = this.#deps.clock.wall() - unusedMs;
    for (const [id, { kind, createdAt, seenAfterMs }] of this.#known) {
      if (createdAt + seenAfterMs > earliest || (principal !== null && kind.principal !== principal)) continue;
      found = id;
      earliest = createdAt + seenAfterMs;
    }
    return found === null ? null : recordOf(found, this.#known.get(found)!);
  }

  /** Joins it with the sessions of this node. */
  follow(follower: SessionFollower): void {
    this.#follower = follower;
  }

  /**
   * Rejects with GatewayError NOT_SENT if it is unknown here and the store cannot be asked, or could not be written to a moment
   * ago.
   */
  async get(id: string): Promise<SessionRecord | null> {
    const { clock } = this.#deps;
    let away: unknown = null;
    const end = clock.now() + READS_MS;
    for (const waitMs of [0, ...LOOKS_MS]) {
      if (waitMs > 0) await pause(clock, waitMs);
      if (this.#closed) return null;
      const waiting = this.#table.waiting(id);
      if (waiting !== undefined) return waiting === null ? null : recordIn(waiting);
      const known = this.#known.get(id);
      if (known !== undefined) return recordOf(id, known);
      try {
        const found = await this.#table.bucket.get(id);
        away = null;
        this.#answers(true);
        if (found !== null) return recordIn(found.value);
      } catch (error) {
        away = error;
        this.#answers(false);
        if (clock.now() >= end) break;
      }
    }
    if (away === null && clock.now() >= this.#settlesAt) {
      this.#warnUnlessComplete();
      return null;
    }
    const text =
      away === null
        ? 'the session is not known yet at this node, which has just begun, or begun again, to hear of the sessions of the cluster'
        : 'the sessions of the cluster cannot be read at the moment';
    throw new GatewayError('NOT_SENT', text, { retryable: true, retryAfterMs: AGAIN_MS, cause: away });
  }

  put(record: SessionRecord): void {
    this.#table.put(record.id, bytesOf(record));
  }

  putEverywhere(record: SessionRecord): Promise<void> {
    this.put(record);
    return this.#everywhere.put(record.id);
  }

  /** Ended here at once, whenever it is written. */
  delete(id: string): void {
    this.#keep(id, null);
    this.#table.put(id, null);
  }

  async all(): Promise<readonly SessionRecord[]> {
    return Array.from(this.#known, ([id, facts]) => recordOf(id, facts));
  }

  async close(): Promise<void> {
    await this.#table.close();
    this.#everywhere.close();
    this.#closed = true;
  }

  /** A store that can be read shows what does not exist, even if it cannot be followed. */
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

  heard({ key: id, value }: StateRecord, again: boolean): void {
    const read = recordIn(value);
    if (read?.id !== id) return;
    const facts = this.#kinds.factsOf(read);
    const before = again ? this.#known.get(id) : undefined;
    if (before !== undefined && before.kind !== facts.kind && before.seenAfterMs > facts.seenAfterMs) {
      // A node that knew less wrote it again first.
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
    const before = this.#known.get(id);
    if (before !== undefined) this.#perPrincipal.add(before.kind.principal, -1);
    if (facts === null) this.#known.delete(id);
    else {
      this.#known.set(id, facts);
      this.#perPrincipal.add(facts.kind.principal, 1);
    }
  }

  heardAll(): void {
    this.#complete = true;
    this.#settlesAt = this.#deps.clock.now() + SETTLES_MS;
  }

  recall(id: string): Buffer | null {
    const facts = this.#known.get(id);
    return facts === undefined ? null : bytesOf(recordOf(id, facts));
  }
}

function bytesOf(record: SessionRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

function recordIn(value: Buffer): SessionRecord | null {
  try {
    const record = JSON.parse(value.toString()) as SessionRecord;
    const { id, principal, endpoint, revision, capabilities, info } = record;
    const texts = [id, principal, endpoint, revision, capabilities, info ?? ''];
    return texts.every((text) => typeof text === 'string') ? { ...record, info: info ?? null } : null;
  } catch {
    return null;
  }
}

/** What sessions of one client product and caller have in common. */
type SessionKind = Omit<SessionRecord, 'id' | 'createdAt' | 'lastSeenAt'>;

/** Compact: every node keeps the sessions of all. */
interface SessionFacts {
  readonly kind: SessionKind;
  readonly createdAt: number;
  /** Relative: small numbers take no memory of their own. */
  readonly seenAfterMs: number;
}

const MAX_KINDS = 1_024;
/** Longer texts are not shared: clients must not decide what is kept. */
const MAX_LENGTH = 8 * 1024;

export class SessionKinds {
  readonly #kinds = new Map<string, SessionKind>();

  factsOf(record: SessionRecord): SessionFacts {
    // Includes members of later versions.
    const { id: _, createdAt, lastSeenAt, ...kind } = record;
    return { kind: this.#shared(kind), createdAt, seenAfterMs: lastSeenAt - createdAt };
  }

  #shared(kind: SessionKind): SessionKind {
    const name = JSON.stringify(kind);
    const known = this.#kinds.get(name);
    if (known !== undefined || name.length > MAX_LENGTH) return known ?? kind;
    if (this.#kinds.size >= MAX_KINDS) this.#kinds.clear();
    this.#kinds.set(name, kind);
    return kind;
  }
}

export function recordOf(id: string, { kind, createdAt, seenAfterMs }: SessionFacts): SessionRecord {
  return { id, ...kind, createdAt, lastSeenAt: createdAt + seenAfterMs };
}
