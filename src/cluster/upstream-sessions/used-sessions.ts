import type { SessionMember, SessionPlace, UpstreamSessionRecord } from '../../model/ports.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LruMap } from '../lru-map.ts';
import type { HeldSession, SharedSessionStore } from './session-record.ts';

/** Often enough that the store keeps what is in use. */
const LOOK_MS = 30_000;
const REFRESH_MS = 24 * 3_600_000;
const MAX_WRITES = 32;
const MAX_HANDSHAKES = 256;

export interface UsedSession extends OwnStream {
  /** The same string in all maps. */
  readonly key: string;
  readonly record: UpstreamSessionRecord;
  generation: string;
  published: boolean;
  /** Its handshake result is too long for the store. */
  readonly unsharable: boolean;
  place: SessionPlace | null;
  member: SessionMember | null;
  /** Monotonic, whole milliseconds. */
  writtenAt: number;
}

/** The sessions that this node uses: known without the store, and kept there. */
export class UsedSessions {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'logger'>;
  readonly #store: SharedSessionStore;
  readonly #kept = new Map<string, UsedSession>();
  /** A handshake result is kept once: nearly all sessions of a server have the same. */
  readonly #handshakes = new LruMap<string>(MAX_HANDSHAKES);
  #alone = 0;
  /** Of the bucket that last had all of them. */
  #incarnation = '';
  #stop: () => void;
  #looking = false;

  constructor(deps: Pick<ClusterDeps, 'clock' | 'logger'>, store: SharedSessionStore) {
    this.#deps = deps;
    this.#store = store;
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
    if (this.#incarnation === '') this.#incarnation = this.#store.bucket.incarnation;
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

  join(key: string, place: SessionPlace, member: SessionMember): UsedSession | null {
    const used = this.get(key);
    if (used !== null) Object.assign(used, { place, member });
    return used;
  }

  leave(key: string, member: SessionMember): void {
    const used = this.#kept.get(key);
    if (used?.member !== member) return;
    // Unknown to other nodes: kept for the next connection.
    if (used.published) this.forget(key);
    else used.member = null;
  }

  ownGeneration(): string {
    return `alone.${++this.#alone}`;
  }

  look(): void {
    this.#stop();
    this.#stop = this.#deps.clock.after(LOOK_MS, () => this.look());
    if (this.#looking || !this.#store.connected) return;
    this.#looking = true;
    void this.#lookAt([...this.#kept.values()]).finally(() => {
      this.#looking = false;
    });
  }

  async #lookAt(all: readonly UsedSession[]): Promise<void> {
    try {
      const incarnation = await this.#store.bucket.readIncarnation();
      const lost = this.#incarnation !== '' && incarnation !== this.#incarnation;
      for (let i = 0; i < all.length; i += MAX_WRITES) {
        await Promise.all(all.slice(i, i + MAX_WRITES).map((used) => this.#lookAfter(used, lost)));
      }
      this.#incarnation = incarnation;
    } catch (error) {
      this.#deps.logger.debug('server_sessions_not_kept', { error: String(error) });
    }
  }

  async #lookAfter(used: UsedSession, lost: boolean): Promise<void> {
    const { key, generation } = used;
    if (this.#kept.get(key) !== used) return;
    const store = this.#store;
    const age = this.#deps.clock.now() - used.writtenAt;
    // Its connection failed.
    if (used.member === null && used.published && age > LOOK_MS) this.forget(key);
    if (used.unsharable || (used.published && age <= REFRESH_MS && !lost)) return;
    const held = await store.get(key);
    if (held === null || store.generation(held) === generation || this.#isFree(held)) await this.#write(used, held);
    else if (held.by === '') this.#another(used, held, lost);
  }

  #isFree({ by, sealed }: HeldSession): boolean {
    return by === '' ? sealed === '' : by === this.#store.peer;
  }

  async #write(used: UsedSession, over: HeldSession | null): Promise<void> {
    const store = this.#store;
    const { key, record, generation } = used;
    const [incarnation, since] = generation.split('.');
    const known = over !== null && incarnation === store.bucket.incarnation;
    const written = {
      by: '',
      since: known ? Number(since) : null,
      replaces: false,
      blocks: over?.blocks ?? 1,
      sealed: store.seal(key, record),
    };
    const revision = await store.write(key, written, over);
    if (revision === null || this.#kept.get(key) !== used) return;
    if (!known) this.#renamed(used, store.generation({ since: revision }));
    used.published = true;
    used.writtenAt = Math.round(this.#deps.clock.now());
  }

  /** Another node has written the session again, or opened another one while nodes were apart: all use that one. */
  #another(used: UsedSession, held: HeldSession, lost: boolean): void {
    const { key, record, place, member } = used;
    if (this.#store.open(key, held)?.mcpSessionId === record.mcpSessionId) {
      used.published = true;
      this.#renamed(used, this.#store.generation(held));
    } else if (lost || !used.published) {
      this.#deps.logger.warn('server_session_replaced', { server: place?.server ?? '' });
      this.forget(key);
      member?.replaced();
    }
  }

  #renamed(used: UsedSession, generation: string): void {
    used.generation = generation;
    used.member?.renamed(generation);
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
