import { hash } from 'node:crypto';
import type { Bucket, StateRecord } from '../../bus/shared-state.ts';
import { chunks } from '../../model/chunks.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionMember, UpstreamSessionRecord, UpstreamSessionRef } from '../../model/ports.ts';
import { resealOutdated } from '../../model/sealing.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LruMap } from '../lru-map.ts';
import { compareAndSet, fencingToken, isTooLarge, jsonIn } from '../store-records.ts';

const SESSIONS = 'trunkline_server_sessions';
/** TTL of the bucket. Nodes write used sessions once a day. */
const KEPT_MS = 8 * 24 * 3_600_000;
/** A record contains the server's handshake result. */
const MAX_RECORD_BYTES = 512 * 1024;
/** Interval of `look`, which keeps sessions in use in the store. */
const LOOK_MS = 30_000;
const REFRESH_MS = 24 * 3_600_000;
const MAX_WRITES = 32;
const MAX_HANDSHAKES = 256;

type Deps = Pick<ClusterDeps, 'bus' | 'state' | 'clock' | 'logger' | 'sealing'>;

export interface WrittenSession {
  /** The node that opens the session; empty if it is open, or if no node opens it. */
  readonly by: string;
  /** Revision of the generation; null: the record's own revision. */
  readonly since: number | null;
  /** Whether the session replaces a lost one. */
  readonly replaces: boolean;
  /** The sealed session; empty while there is none. */
  readonly sealed: string;
}

/** A record as it is in the store. */
export interface HeldSession extends WrittenSession {
  readonly since: number;
  readonly revision: number;
}

export interface UsedSession extends OwnStream {
  /** The same string object in all maps. */
  readonly key: string;
  readonly record: UpstreamSessionRecord;
  generation: string;
  published: boolean;
  /** Whether the record is too large for the store. */
  unsharable: boolean;
  place: UpstreamSessionRef | null;
  member: SessionMember | null;
  /** Monotonic, whole milliseconds. */
  writtenAt: number;
}

/** The key depends on the definition of the server: another definition has other sessions. */
export function sessionKeyOf({ server, identity, key }: UpstreamSessionRef): string {
  return `session.${hash('sha256', `${server}\n${identity}\n${key}`).slice(0, 40)}`;
}

/**
 * The shared records of sessions with HTTP servers. Keeps those that this node uses in memory, and renews them in the store.
 * Operations on the store reject with GatewayError.
 */
export class UsedSessions {
  readonly bucket: Bucket;
  /** Keys of the sessions that this node is opening. */
  readonly turns = new Set<string>();
  readonly #deps: Deps;
  readonly #kept = new Map<string, UsedSession>();
  /** Handshake results by definition, kept once: nearly all sessions of a server have the same. */
  readonly #handshakes = new LruMap<string>(MAX_HANDSHAKES);
  #alone = 0;
  /** Incarnation of the bucket that last had all sessions of this node. */
  #incarnation = '';
  #stop: () => void;
  #looking = false;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.bucket = deps.state.bucket(SESSIONS, { ttlMs: KEPT_MS, maxValueBytes: MAX_RECORD_BYTES });
    this.#stop = deps.clock.after(LOOK_MS, () => this.look());
  }

  get(key: string): UsedSession | null {
    return this.#kept.get(key) ?? null;
  }

  put(
    key: string,
    record: UpstreamSessionRecord,
    generation: string,
    { published, unsharable = false }: { readonly published: boolean; readonly unsharable?: boolean },
  ): UsedSession {
    if (this.#incarnation === '') this.#incarnation = this.bucket.incarnation;
    const known = this.#handshakes.get(record.identity);
    if (known !== record.hello) this.#handshakes.set(record.identity, record.hello);
    const used: UsedSession = {
      key,
      record: known === record.hello ? { ...record, hello: known } : record,
      generation,
      published,
      unsharable,
      place: this.#kept.get(key)?.place ?? null,
      member: null,
      writtenAt: Math.round(this.#deps.clock.now()),
    };
    this.#kept.set(key, used);
    return used;
  }

  forget(key: string): void {
    this.#kept.delete(key);
  }

  join(key: string, place: UpstreamSessionRef, member: SessionMember): UsedSession | null {
    const used = this.get(key);
    if (used !== null) Object.assign(used, { place, member });
    return used;
  }

  leave(key: string, member: SessionMember): void {
    const used = this.#kept.get(key);
    if (used?.member !== member) return;
    // Other nodes do not know an unpublished session: keep it for the next connection.
    if (used.published) this.forget(key);
    else used.member = null;
  }

  ownGeneration(): string {
    return `alone.${++this.#alone}`;
  }

  get connected(): boolean {
    return this.#deps.bus.connected;
  }

  async read(key: string): Promise<HeldSession | null> {
    if (!this.connected) throw new GatewayError('NOT_SENT', 'the bus is not connected');
    const found = await this.bucket.get(key);
    return found === null ? null : heldIn(found);
  }

  /** Writes over the record that was read; null if another node wrote first. */
  write(key: string, written: WrittenSession, over: HeldSession | null): Promise<number | null> {
    return compareAndSet(this.bucket, key, textOf(written), over);
  }

  generation({ since }: { readonly since: number }): string {
    return fencingToken(this.bucket.incarnation, since);
  }

  seal(key: string, record: UpstreamSessionRecord): string {
    return this.#deps.sealing.seal(contextOf(key), JSON.stringify(record));
  }

  /** Returns null if the record has no session, or none that this node can open. */
  open(key: string, { sealed }: WrittenSession): UpstreamSessionRecord | null {
    const text = sealed === '' ? null : this.#deps.sealing.open(contextOf(key), sealed);
    if (text === null) return null;
    const record = JSON.parse(text) as UpstreamSessionRecord;
    return typeof record.mcpSessionId === 'string' && typeof record.hello === 'string' ? record : null;
  }

  /** Seals the record with the key in force. Returns null if that key sealed it, or no key opens it. */
  reseal(found: StateRecord): string | null {
    const held = heldIn(found);
    const sealed = held.sealed === '' ? null : resealOutdated(this.#deps.sealing, contextOf(found.key), held.sealed);
    return sealed === null ? null : textOf({ ...held, sealed }).toString();
  }

  look(): void {
    this.#stop();
    this.#stop = this.#deps.clock.after(LOOK_MS, () => this.look());
    if (this.#looking || !this.connected) return;
    this.#looking = true;
    void this.#lookAt([...this.#kept.values()]).finally(() => {
      this.#looking = false;
    });
  }

  async #lookAt(all: readonly UsedSession[]): Promise<void> {
    try {
      const incarnation = await this.bucket.readIncarnation();
      const lost = this.#incarnation !== '' && incarnation !== this.#incarnation;
      for (const some of chunks(all, MAX_WRITES)) {
        await Promise.all(some.map((used) => this.#lookAfter(used, lost)));
      }
      this.#incarnation = incarnation;
    } catch (error) {
      this.#deps.logger.debug('server_sessions_not_kept', { error: String(error) });
    }
  }

  async #lookAfter(used: UsedSession, lost: boolean): Promise<void> {
    const { key, generation } = used;
    if (this.#kept.get(key) !== used) return;
    const age = this.#deps.clock.now() - used.writtenAt;
    // No connection uses it.
    if (used.member === null && used.published && age > LOOK_MS) this.forget(key);
    if (used.unsharable || this.turns.has(key) || (used.published && age <= REFRESH_MS && !lost)) return;
    const held = await this.read(key);
    try {
      if (held === null || this.generation(held) === generation || this.#isFree(held)) await this.#write(used, held);
      else if (held.by === '') this.#another(used, held, lost);
    } catch (error) {
      if (!isTooLarge(error)) throw error;
      // Other nodes wait while a record says that this one opens the session.
      if (held?.by === this.#deps.bus.peer) await this.bucket.delete(key, held.revision);
      used.published = false;
      used.unsharable = true;
      const server = used.place?.server ?? '';
      this.#deps.logger.warn('server_session_not_shared', { server, error: error.message });
    }
  }

  #isFree({ by, sealed }: HeldSession): boolean {
    return by === '' ? sealed === '' : by === this.#deps.bus.peer;
  }

  async #write(used: UsedSession, over: HeldSession | null): Promise<void> {
    const { key, record, generation } = used;
    const [incarnation, since] = generation.split('.');
    const known = over !== null && incarnation === this.bucket.incarnation;
    const written = {
      by: '',
      since: known ? Number(since) : null,
      replaces: false,
      sealed: this.seal(key, record),
    };
    const revision = await this.write(key, written, over);
    if (revision === null || this.#kept.get(key) !== used) return;
    if (!known) this.#renamed(used, this.generation({ since: revision }));
    used.published = true;
    used.writtenAt = Math.round(this.#deps.clock.now());
  }

  /** Another node has restored the session, or opened another one during a partition: all nodes use that one. */
  #another(used: UsedSession, held: HeldSession, lost: boolean): void {
    const { key, record, place, member } = used;
    if (this.open(key, held)?.mcpSessionId === record.mcpSessionId) {
      used.published = true;
      this.#renamed(used, this.generation(held));
    } else if (lost || !used.published) {
      this.#deps.logger.warn('server_session_replaced', { server: place?.server ?? '' });
      this.forget(key);
      member?.replaced();
    }
  }

  #renamed(used: UsedSession, generation: string): void {
    used.generation = generation;
    used.member?.generationChanged(generation);
  }
}

function textOf({ by, since, replaces, sealed }: WrittenSession): Buffer {
  return Buffer.from(JSON.stringify({ by, since, replaces, sealed }));
}

/** An unreadable record counts as empty. */
function heldIn({ value, revision }: StateRecord): HeldSession {
  const { by, since, replaces, sealed } = jsonIn<Partial<WrittenSession>>(value) ?? {};
  if (typeof by !== 'string' || typeof sealed !== 'string')
    return { by: '', since: revision, replaces: false, sealed: '', revision };
  const began = typeof since === 'number' ? since : revision;
  return { by, since: began, replaces: replaces === true, sealed, revision };
}

function contextOf(key: string): string {
  return `upstream ${key}`;
}

export interface OwnStream {
  /** Last event that a listener received; null: unknown; undefined: no listener yet. */
  lastEventId?: string | null;
}

/** Listens without a claim, because no other node can use the session. Returns the function that ends it. */
export function listenWithoutClaim(stream: OwnStream, member: SessionMember): () => void {
  let left = false;
  // The member may not be fully constructed until then.
  queueMicrotask(() => {
    if (left) return;
    const { lastEventId } = stream;
    stream.lastEventId = null;
    member.listen(lastEventId ?? null, lastEventId === null);
  });
  return () => {
    if (left) return;
    left = true;
    const lastId = member.stopListening();
    if (stream.lastEventId !== undefined) stream.lastEventId = lastId;
  };
}
