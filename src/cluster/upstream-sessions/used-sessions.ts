import type { SessionMember, SessionPlace, UpstreamSessionRecord } from '../../model/ports.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { fencingToken, type LazyBucket } from '../lazy-bucket.ts';
import { openRecord, readWritten, sealRecord, type WrittenSession, writtenText } from './session-record.ts';

/** Often enough that the store keeps what is in use. */
const LOOK_MS = 30_000;
const REFRESH_MS = 24 * 3_600_000;
const MAX_WRITES = 32;

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'sealing'>;

export interface UsedSession extends OwnStream {
  /** The same string in all maps. */
  readonly key: string;
  readonly record: UpstreamSessionRecord;
  generation: string;
  published: boolean;
  /** Its handshake result is too long for the store. */
  readonly unsharable: boolean;
}

interface PutHow {
  readonly published: boolean;
  readonly unsharable?: boolean;
}

interface UsedEntry extends UsedSession {
  place: SessionPlace | null;
  member: SessionMember | null;
  /** Monotonic, whole milliseconds. */
  writtenAt: number;
}

/** The sessions that this node uses: known without the store, and kept there. */
export class UsedSessions {
  readonly #deps: Deps;
  readonly #bucket: LazyBucket;
  readonly #kept = new Map<string, UsedEntry>();
  readonly #handshakes = new SharedHandshakes();
  #alone = 0;
  /** Of the bucket that last had all of them. */
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

  /** Returns the record as kept. */
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
    // Unknown to other nodes: kept for the next connection.
    if (kept.published) this.forget(key);
    else kept.member = null;
  }

  ownGeneration(): string {
    return `alone.${++this.#alone}`;
  }

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
    // Its connection failed.
    if (kept.member === null && kept.published && age > LOOK_MS) this.forget(key);
    if (kept.unsharable || (kept.published && age <= REFRESH_MS && !lost)) return;
    const found = await bucket.get(key);
    const held = found === null ? null : readWritten(found);
    const same = held !== null && fencingToken(bucket.incarnation, held.since ?? found!.revision) === kept.generation;
    if (found === null || held === null) await this.#write(key, kept, null);
    else if (same || held.by === bus.peer || (held.by === '' && held.sealed === '')) {
      await this.#write(key, kept, found.revision, held.blocks);
    } else if (held.by === '') this.#another(key, kept, held, found.revision, lost);
  }

  /** On top of revision `on`, if given. */
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

  /** Another node has written the session again, or opened another one. */
  #another(key: string, kept: UsedEntry, held: WrittenSession, revision: number, lost: boolean): void {
    const record = openRecord(this.#deps.sealing, key, held.sealed);
    if (record?.mcpSessionId === kept.record.mcpSessionId) {
      kept.generation = fencingToken(this.#bucket.incarnation, held.since ?? revision);
      kept.published = true;
      kept.member?.renamed(kept.generation);
    } else if (lost || !kept.published) this.#replaced(key, kept);
  }

  /** Another node opened the session too while nodes were apart; all use that one. */
  #replaced(key: string, { place, member }: UsedEntry): void {
    this.#deps.logger.warn('server_session_replaced', { server: place?.server ?? '' });
    this.forget(key);
    member?.replaced();
  }
}

export interface OwnStream {
  /** Null: unknown; undefined: no listener yet. */
  heard?: string | null;
}

/** Listens without a claim, because no other node can use the session. Returns the function that ends it. */
export function listenAlone(stream: OwnStream, member: SessionMember): () => void {
  let left = false;
  // The member may be incomplete until then.
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

/** Keeps a handshake result once: nearly all sessions of a server have the same. */
export class SharedHandshakes {
  readonly #handshakes = new Map<string, SharedHandshake>();

  get size(): number {
    return this.#handshakes.size;
  }

  /** Until it is `left`. */
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
