import type { Clock } from '../../model/clock.ts';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import type { Sealing } from '../../model/sealing.ts';
import { ID_BLOCK, type SessionMember, type SessionPlace } from '../../model/shared-sessions.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import { openRecord, readWritten, sealRecord, type WrittenSession, writtenText } from './session-record.ts';

/** What is in use is looked after so often, and written so often, that the store does not forget it. */
const LOOK_MS = 30_000;
const REFRESH_MS = 24 * 3_600_000;
/** Blocks of ids: after those that a store gave out which has lost its records; and those that none gave out. */
const AFTER_LOSS = 2 ** 16;
const APART = 2 ** 20;
/** At once. */
const MAX_WRITES = 32;

export interface UsedSessionsDeps {
  readonly bucket: LazyBucket;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly sealing: Sealing;
  readonly peer: string;
  readonly connected: () => boolean;
}

export interface UsedSession {
  readonly record: UpstreamSessionRecord;
  generation: string;
  /** The other nodes know of it. */
  published: boolean;
}

interface Kept extends UsedSession {
  place: SessionPlace | null;
  member: SessionMember | null;
  /** Monotonic. */
  writtenAt: number;
  /** Where the member's present block of ids begins. */
  idsAfter: number;
}

/** The sessions of servers that this node has connections for: what is known of them without the store, and kept there. */
export class UsedSessions {
  readonly #deps: UsedSessionsDeps;
  readonly #kept = new Map<string, Kept>();
  /** What each server says of itself is the same for all its sessions, nearly always: kept once. */
  readonly #hellos = new Map<string, string>();
  #alone = 0;
  /** Of the bucket, when all of them were last known to be in it. */
  #incarnation = '';
  #stop: () => void;
  #looking = false;
  #closed = false;

  constructor(deps: UsedSessionsDeps) {
    this.#deps = deps;
    this.#stop = deps.clock.after(LOOK_MS, () => this.look());
  }

  get(key: string): UsedSession | null {
    return this.#kept.get(key) ?? null;
  }

  /** Returns the record as it is kept. */
  put(key: string, record: UpstreamSessionRecord, generation: string, published: boolean): UpstreamSessionRecord {
    const hello = this.#hellos.get(record.identity);
    if (hello !== record.hello) this.#hellos.set(record.identity, record.hello);
    const kept = hello === record.hello ? { ...record, hello } : record;
    const before = this.#kept.get(key);
    if (this.#incarnation === '') this.#incarnation = this.#deps.bucket.incarnation;
    this.#kept.set(key, {
      record: kept,
      generation,
      published,
      place: before?.place ?? null,
      member: null,
      writtenAt: this.#deps.clock.now(),
      idsAfter: 0,
    });
    return kept;
  }

  forget(key: string): void {
    this.#kept.delete(key);
  }

  join(key: string, place: SessionPlace, member: SessionMember): () => void {
    const kept = this.#kept.get(key);
    if (kept !== undefined) Object.assign(kept, { place, member, idsAfter: member.lastId });
    return () => {
      const present = this.#kept.get(key);
      // What nobody else knows of is kept, for the next connection.
      if (present?.member === member && present.published) this.#kept.delete(key);
      else if (present?.member === member) present.member = null;
    };
  }

  /** Of a session that was opened without the store. */
  ownGeneration(): string {
    return `alone.${++this.#alone}`;
  }

  idsApart(): number {
    return (APART + Math.floor(this.#deps.random.unit() * APART)) * ID_BLOCK;
  }

  /** Looks after all of them: now, and again in a while. */
  look(): void {
    if (this.#closed) return;
    this.#stop();
    this.#stop = this.#deps.clock.after(LOOK_MS, () => this.look());
    if (this.#looking || !this.#deps.connected()) return;
    this.#looking = true;
    void this.#lookAt([...this.#kept.keys()]).finally(() => {
      this.#looking = false;
    });
  }

  close(): void {
    this.#closed = true;
    this.#stop();
  }

  async #lookAt(keys: readonly string[]): Promise<void> {
    const { logger, bucket } = this.#deps;
    try {
      const incarnation = await bucket.readIncarnation();
      const lost = this.#incarnation !== '' && incarnation !== this.#incarnation;
      for (let i = 0; i < keys.length; i += MAX_WRITES) {
        await Promise.all(keys.slice(i, i + MAX_WRITES).map((key) => this.#lookAfter(key, lost)));
      }
      this.#incarnation = incarnation;
    } catch (error) {
      logger.debug('server_sessions_not_kept', { error: String(error) });
    }
  }

  async #lookAfter(key: string, lost: boolean): Promise<void> {
    const kept = this.#kept.get(key);
    if (kept === undefined) return;
    const { clock, bucket, peer } = this.#deps;
    const age = clock.now() - kept.writtenAt;
    // The connection that it was read for has come to nothing.
    if (kept.member === null && kept.published && age > LOOK_MS) this.#kept.delete(key);
    const spent = kept.member !== null && kept.member.lastId - kept.idsAfter > ID_BLOCK / 2;
    if (kept.published && age <= REFRESH_MS && !spent && !lost) return;
    const found = await bucket.get(key);
    const held = found === null ? null : readWritten(found);
    const same = held !== null && `${bucket.incarnation}.${held.since ?? found!.revision}` === kept.generation;
    if (found === null || held === null) await this.#write(key, kept, null, AFTER_LOSS);
    else if (same) {
      if (!(await this.#write(key, kept, found.revision, held.blocks + 1)) || !spent) return;
      kept.idsAfter = held.blocks * ID_BLOCK;
      kept.member?.numberAfter(kept.idsAfter);
    } else if (held.by === peer || (held.by === '' && held.sealed === '')) {
      // Nobody has another one.
      await this.#write(key, kept, found.revision, AFTER_LOSS);
    } else if (held.by === '') this.#another(key, kept, held, found.revision, lost);
  }

  /** On top of the revision, where there is one. False when somebody else has written meanwhile. */
  async #write(key: string, kept: Kept, on: number | null, blocks: number): Promise<boolean> {
    const { bucket, clock, sealing } = this.#deps;
    const [incarnation, since] = kept.generation.split('.');
    const known = on !== null && incarnation === bucket.incarnation;
    const sealed = sealRecord(sealing, key, kept.record);
    const written: WrittenSession = { by: '', since: known ? Number(since) : null, replaces: false, blocks, sealed };
    const text = writtenText(written);
    const revision = on === null ? await bucket.create(key, text) : await bucket.update(key, text, on);
    if (revision === null || this.#kept.get(key) !== kept) return false;
    if (!known) {
      kept.generation = `${bucket.incarnation}.${revision}`;
      kept.member?.renamed(kept.generation);
    }
    kept.published = true;
    kept.writtenAt = clock.now();
    return true;
  }

  /** The record is of another generation: another node has written the same session anew, or has opened another one. */
  #another(key: string, kept: Kept, held: WrittenSession, revision: number, lost: boolean): void {
    const record = openRecord(this.#deps.sealing, key, held.sealed);
    if (record?.mcpSessionId === kept.record.mcpSessionId) {
      kept.generation = `${this.#deps.bucket.incarnation}.${held.since ?? revision}`;
      kept.published = true;
      kept.member?.renamed(kept.generation);
    } else if (lost || !kept.published) this.#replaced(key, kept);
  }

  /** While the nodes were apart another one opened the session too; that one is everybody's by now. */
  #replaced(key: string, { place, member }: Kept): void {
    this.#deps.logger.warn('server_session_replaced', { server: place?.server ?? '' });
    this.#kept.delete(key);
    member?.replaced();
  }
}
