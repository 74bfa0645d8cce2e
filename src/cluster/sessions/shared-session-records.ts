import type { Bus } from '../../bus/bus.ts';
import type { SharedState } from '../../bus/shared-state.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionRecord, SessionRecords } from '../../model/ports.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { FollowedRecords, type RecordOwner } from './followed-records.ts';
import { ReplicationBarrier } from './replication-barrier.ts';

/** What was written moments ago at another node may not be there yet when its client is here already. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400];
/** A store that does not answer for so long is not asked again. */
const READS_MS = 1_500;
const AGAIN_MS = 1_000;
/**
 * After an outage every node needs a moment to write what it could not, or the store has lost. A node that has just started
 * cannot know that there was one.
 */
const SETTLES_MS = 3_000;
/**
 * The same where sessions can be read and are not followed: others may be as slow to hear that the store has lost
 * something.
 */
const SETTLES_INCOMPLETE_MS = 10_000;
const SESSIONS = 'trunkline_sessions';
/** Those that are used are written once a minute; the sweep ends others far sooner. */
const KEPT_MS = 8 * 24 * 3_600_000;
/** What clients say of themselves, 64 KiB at most, is in them as text: a line feed or a quotation mark takes two bytes. */
const MAX_RECORD_BYTES = 256 * 1024;
/** While the store is away, each session that is used is to be written once a minute. */
const MAX_WAITING = 100_000;

interface SharedSessionRecordsDeps {
  readonly bus: Bus;
  /** The other nodes. */
  readonly others: () => readonly string[];
  readonly state: SharedState;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The sessions of this node. */
export interface SessionFollower {
  /** Something of the session is another, at this node or another. */
  changed(record: SessionRecord): void;
  /** The session was ended, at this node or another. */
  gone(id: string): void;
}

/**
 * Client sessions as all nodes know them: any of them can serve any session. While the store cannot be read, no node says
 * of a session that it is not there; when it has lost everything, nodes write what they know: sessions end only when a
 * client or the sweep ends them.
 */
export class SharedSessionRecords implements SessionRecords, RecordOwner {
  readonly #deps: SharedSessionRecordsDeps;
  #follower: SessionFollower | null = null;
  readonly #records: FollowedRecords;
  readonly #everywhere: ReplicationBarrier;
  readonly #known = new Map<string, SessionFacts>();
  readonly #kinds = new SessionKinds();
  /** Until then others may not have written all that they know. */
  #settlesAt = Number.POSITIVE_INFINITY;
  /** Everything that is there was listed once. */
  #complete = false;
  #warned = false;
  #closed = false;

  constructor(deps: SharedSessionRecordsDeps) {
    this.#deps = deps;
    this.#records = new FollowedRecords(
      deps,
      { bucket: SESSIONS, keptMs: KEPT_MS, maxValueBytes: MAX_RECORD_BYTES, maxWaiting: MAX_WAITING },
      this,
    );
    const { bus, clock, others } = deps;
    this.#everywhere = new ReplicationBarrier({ bus, clock, name: 'sessions', records: this.#records, others });
  }

  /** Joins it with the sessions of this node. */
  follow(follower: SessionFollower): void {
    this.#follower = follower;
  }

  /**
   * Rejects with GatewayError NOT_SENT where this node does not know it and the store cannot be asked, or could not be
   * written to until a moment ago: it may well be there.
   */
  async get(id: string): Promise<SessionRecord | null> {
    const { clock } = this.#deps;
    let away: unknown = null;
    const end = clock.now() + READS_MS;
    for (const waitMs of [0, ...LOOKS_MS]) {
      if (waitMs > 0) await pause(clock, waitMs);
      if (this.#closed) return null;
      const waiting = this.#records.waiting(id);
      if (waiting !== undefined) return waiting === null ? null : recordIn(waiting);
      const known = this.#known.get(id);
      if (known !== undefined) return recordOf(id, known);
      try {
        const found = await this.#records.get(id);
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
    this.#records.put(record.id, bytesOf(record));
  }

  putEverywhere(record: SessionRecord): Promise<void> {
    this.put(record);
    return this.#everywhere.put(record.id);
  }

  /** It is ended here from now on, however long it takes until that is written. */
  delete(id: string): void {
    this.#known.delete(id);
    this.#records.put(id, null);
  }

  async all(): Promise<readonly SessionRecord[]> {
    return Array.from(this.#known, ([id, facts]) => recordOf(id, facts));
  }

  /** What is not written yet has a moment to be. */
  async close(): Promise<void> {
    await this.#records.close();
    this.#everywhere.close();
    this.#closed = true;
  }

  /** What cannot be followed can be read all the same: that it is not there is known then, in a moment. */
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

  heard(id: string, value: Buffer, again: boolean): void {
    const read = recordIn(value);
    // It is ended here, of which the others are about to hear.
    if (read?.id !== id || this.#records.waiting(id) === null) return;
    const facts = this.#kinds.factsOf(read);
    const before = again ? this.#known.get(id) : undefined;
    if (before !== undefined && before.kind !== facts.kind && before.seenAfterMs > facts.seenAfterMs) {
      // The store has lost it, and a node that had heard of less was the first to write it again.
      this.put(recordOf(id, before));
      return;
    }
    this.#known.set(id, facts);
    this.#follower?.changed(recordOf(id, facts));
  }

  gone(id: string): void {
    this.#known.delete(id);
    this.#follower?.gone(id);
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

/** What many sessions have in common: those of clients of one make that are the same caller's, nearly everything. */
type SessionKind = Omit<SessionRecord, 'id' | 'createdAt' | 'lastSeenAt'>;

/** A record as it is kept, under its id: of the sessions of all nodes, so that every word of it counts. */
interface SessionFacts {
  readonly kind: SessionKind;
  readonly createdAt: number;
  /** From then on: small numbers take no memory of their own. */
  readonly seenAfterMs: number;
}

const MAX_KINDS = 1_024;
/** Longer ones stay as they are: what clients say must not decide what is kept. */
const MAX_LENGTH = 8 * 1024;

/** Keeps what records have in common once. */
export class SessionKinds {
  readonly #kinds = new Map<string, SessionKind>();

  factsOf(record: SessionRecord): SessionFacts {
    // With what nodes of later versions may say besides.
    const { id: _, createdAt, lastSeenAt, ...kind } = record;
    return { kind: this.#shared(kind), createdAt, seenAfterMs: lastSeenAt - createdAt };
  }

  /** An equal one. */
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
