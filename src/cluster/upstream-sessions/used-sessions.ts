import type { UpstreamSessionRecord } from '../../model/ports.ts';
import type { SessionMember, SessionPlace } from '../../model/shared-upstream-sessions.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { fencingToken, type LazyBucket } from '../lazy-bucket.ts';
import { openRecord, readWritten, sealRecord, type WrittenSession, writtenText } from './session-record.ts';

/** What is in use is looked after so often, and written so often, that the store does not forget it. */
const LOOK_MS = 30_000;
const REFRESH_MS = 24 * 3_600_000;
/** At once. */
const MAX_WRITES = 32;

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'sealing'>;

export interface UsedSession extends OwnStream {
  /** The string that was put: other maps keep this same string. */
  readonly key: string;
  readonly record: UpstreamSessionRecord;
  generation: string;
  /** The other nodes know of it. */
  published: boolean;
  /** What its server says of itself is too long for the store: it is this node's alone, for good. */
  readonly unsharable: boolean;
}

interface PutHow {
  readonly published: boolean;
  readonly unsharable?: boolean;
}

interface UsedEntry extends UsedSession {
  place: SessionPlace | null;
  member: SessionMember | null;
  /** Monotonic, in whole milliseconds. */
  writtenAt: number;
}

/** The sessions of servers that this node has connections for: what is known of them without the store, and kept there. */
export class UsedSessions {
  readonly #deps: Deps;
  readonly #bucket: LazyBucket;
  readonly #kept = new Map<string, UsedEntry>();
  readonly #handshakes = new SharedHandshakes();
  #alone = 0;
  /** Of the bucket, when all of them were last known to be in it. */
  #incarnation = '';
  #stop: () => void;
  #looking = false;
  #closed = false;

  constructor(deps: Deps, bucket: LazyBucket) {
    this.#deps = deps;
    this.#bucket = bucket;
    this.#stop = deps.clock.after(LOOK_MS, () => this.look());
  }

  get(key: string): UsedSession | null {
    return this.#kept.get(key) ?? null;
  }

  /** Returns the record as it is kept. */
  put(key: string, record: UpstreamSessionRecord, generation: string, how: PutHow): UpstreamSessionRecord {
    const before = this.#kept.get(key);
    const kept = this.#handshakes.taken(record);
    if (before !== undefined) this.#handshakes.left(before.record);
    if (this.#incarnation === '') this.#incarnation = this.#bucket.incarnation;
    this.#kept.set(key, {
      key,
      record: kept,
      generation,
      published: how.published,
      unsharable: how.unsharable ?? false,
      place: before?.place ?? null,
      member: null,
      writtenAt: Math.round(this.#deps.clock.now()),
    });
    return kept;
  }

  forget(key: string): void {
    const kept = this.#kept.get(key);
    if (kept !== undefined) this.#handshakes.left(kept.record);
    this.#kept.delete(key);
  }

  /** Null for what is not known here. */
  join(key: string, place: SessionPlace, member: SessionMember): UsedSession | null {
    const kept = this.#kept.get(key);
    if (kept === undefined) return null;
    kept.place = place;
    kept.member = member;
    return kept;
  }

  leave(key: string, member: SessionMember): void {
    const kept = this.#kept.get(key);
    if (kept?.member !== member) return;
    // What no other node knows of is kept, for the next connection.
    if (kept.published) this.forget(key);
    else kept.member = null;
  }

  /** Of a session that was opened without the store. */
  ownGeneration(): string {
    return `alone.${++this.#alone}`;
  }

  /** Looks after all of them: now, and again in a while. */
  look(): void {
    if (this.#closed) return;
    this.#stop();
    this.#stop = this.#deps.clock.after(LOOK_MS, () => this.look());
    if (this.#looking || this.#deps.bus.status.state !== 'connected') return;
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
    const { logger } = this.#deps;
    const bucket = this.#bucket;
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
    const { clock, bus } = this.#deps;
    const bucket = this.#bucket;
    const age = clock.now() - kept.writtenAt;
    // The connection that it was read for has come to nothing.
    if (kept.member === null && kept.published && age > LOOK_MS) this.forget(key);
    if (kept.unsharable || (kept.published && age <= REFRESH_MS && !lost)) return;
    const found = await bucket.get(key);
    const held = found === null ? null : readWritten(found);
    const same = held !== null && fencingToken(bucket.incarnation, held.since ?? found!.revision) === kept.generation;
    if (found === null || held === null) await this.#write(key, kept, null);
    // No other node has another one.
    else if (same || held.by === bus.peer || (held.by === '' && held.sealed === '')) {
      await this.#write(key, kept, found.revision, held.blocks);
    } else if (held.by === '') this.#another(key, kept, held, found.revision, lost);
  }

  /** On top of the revision, where there is one. */
  async #write(key: string, kept: UsedEntry, on: number | null, blocks = 1): Promise<void> {
    const { clock, sealing } = this.#deps;
    const bucket = this.#bucket;
    const [incarnation, since] = kept.generation.split('.');
    const known = on !== null && incarnation === bucket.incarnation;
    const sealed = sealRecord(sealing, key, kept.record);
    const written: WrittenSession = { by: '', since: known ? Number(since) : null, replaces: false, blocks, sealed };
    const text = writtenText(written);
    const revision = on === null ? await bucket.create(key, text) : await bucket.update(key, text, on);
    if (revision === null || this.#kept.get(key) !== kept) return;
    if (!known) {
      kept.generation = fencingToken(bucket.incarnation, revision);
      kept.member?.renamed(kept.generation);
    }
    kept.published = true;
    kept.writtenAt = Math.round(clock.now());
  }

  /** The record is of another generation: another node has written the same session anew, or has opened another one. */
  #another(key: string, kept: UsedEntry, held: WrittenSession, revision: number, lost: boolean): void {
    const record = openRecord(this.#deps.sealing, key, held.sealed);
    if (record?.mcpSessionId === kept.record.mcpSessionId) {
      kept.generation = fencingToken(this.#bucket.incarnation, held.since ?? revision);
      kept.published = true;
      kept.member?.renamed(kept.generation);
    } else if (lost || !kept.published) this.#replaced(key, kept);
  }

  /** While the nodes were apart another one opened the session too; all nodes use that one by now. */
  #replaced(key: string, { place, member }: UsedEntry): void {
    this.#deps.logger.warn('server_session_replaced', { server: place?.server ?? '' });
    this.forget(key);
    member?.replaced();
  }
}

/** A session of a server's that no other node can use. */
export interface OwnStream {
  /** How far its stream was heard; null where that is not known, undefined before the first listener. */
  heard?: string | null;
}

/**
 * No other node can listen to it, so no claim is needed: the node with the connection listens, and goes on where the one before
 * it ended. The returned function: not any more.
 */
export function listenAlone(stream: OwnStream, member: SessionMember): () => void {
  let left = false;
  // The member may not be complete yet.
  queueMicrotask(() => {
    if (left) return;
    const { heard } = stream;
    stream.heard = null;
    member.listen(heard ?? null, heard === null);
  });
  return () => {
    if (left) return;
    left = true;
    const heard = member.silence();
    if (stream.heard !== undefined) stream.heard = heard;
  };
}

interface SharedHandshake {
  readonly text: string;
  sessions: number;
}

/** What a server says of itself is the same for all its sessions, nearly always: kept once, for as long as one has it. */
export class SharedHandshakes {
  readonly #handshakes = new Map<string, SharedHandshake>();

  get size(): number {
    return this.#handshakes.size;
  }

  /** The record as it is to be kept, until it is `left`. */
  taken(record: UpstreamSessionRecord): UpstreamSessionRecord {
    const known = this.#handshakes.get(record.identity);
    if (known === undefined) this.#handshakes.set(record.identity, { text: record.hello, sessions: 1 });
    if (known?.text !== record.hello) return record;
    known.sessions++;
    return { ...record, hello: known.text };
  }

  left({ identity, hello }: UpstreamSessionRecord): void {
    const known = this.#handshakes.get(identity);
    if (known?.text === hello && --known.sessions === 0) this.#handshakes.delete(identity);
  }
}
