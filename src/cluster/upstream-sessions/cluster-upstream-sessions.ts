import type { StateRecord } from '../../bus/shared-state.ts';
import { pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type {
  OpenedSession,
  SessionLock,
  SessionMember,
  SessionPlace,
  SharedUpstreamSessions,
  UpstreamSessionRecord,
} from '../../model/ports.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { fencingToken, LazyBucket } from '../lazy-bucket.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { Claims } from '../ownership/claims.ts';
import { Resealing } from '../resealing.ts';
import {
  openRecord,
  readWritten,
  resealed,
  sealRecord,
  sessionKeyOf,
  type WrittenSession,
  writtenText,
} from './session-record.ts';
import { SessionStreams } from './session-streams.ts';
import { listenAlone, type UsedSession, UsedSessions } from './used-sessions.ts';

const SESSIONS = 'trunkline_server_sessions';
/** Used ones are written once a day. */
const KEPT_MS = 8 * 24 * 3_600_000;
/** Contains the server's handshake result. */
const MAX_RECORD_BYTES = 512 * 1024;
const LOOK_MS = 50;
const MAX_LOOK_MS = 250;
/** For concurrent writers. */
const ATTEMPTS = 8;
const AGAIN_MS = 1_000;
/** A store that is there without answering may be electing a leader. */
const SLOW_MS = 3_000;
const MAX_TELLS = 30;

type Deps = Pick<ClusterDeps, 'bus' | 'state' | 'clock' | 'logger' | 'sealing'>;

/**
 * The sessions of HTTP servers, shared by all nodes. Each is a record: opened by the node that first wrote so, replaced on the
 * generation that its server rejected, ended by the node that deletes it. Without the store a node uses what it knows and opens
 * its own sessions; if the store does not answer, it waits a moment first.
 */
export class ClusterUpstreamSessions implements SharedUpstreamSessions {
  readonly streams: SessionStreams;
  readonly #deps: Deps;
  readonly #claims: Claims;
  readonly #known: Pick<KnownServers, 'instances'>;
  readonly #bucket: LazyBucket;
  readonly #used: UsedSessions;
  readonly #resealing: Resealing | null;
  readonly #turns = new Set<string>();
  /** How members leave whose sessions are this node's alone. */
  readonly #listening = new Map<SessionMember, () => void>();
  #openFailures = false;
  #closed = false;

  constructor(
    deps: Deps,
    claims: Claims,
    self: Pick<OwnNode, 'able'>,
    nodes: Pick<Nodes, 'get'>,
    known: Pick<KnownServers, 'instances'>,
  ) {
    this.#deps = deps;
    this.#claims = claims;
    this.#known = known;
    this.#bucket = new LazyBucket(deps.state, SESSIONS, { ttlMs: KEPT_MS, maxValueBytes: MAX_RECORD_BYTES });
    this.#used = new UsedSessions(deps, this.#bucket);
    this.streams = new SessionStreams(deps, claims, self, nodes);
    const { clock, logger, sealing } = deps;
    const reseal = (found: StateRecord): Buffer | null => resealed(sealing, found);
    const changing = sealing.outdated !== undefined;
    this.#resealing = changing ? new Resealing({ bucket: this.#bucket, name: SESSIONS, clock, logger, reseal }) : null;
  }

  async enter(place: SessionPlace, gone: string | null, wanted: () => boolean): Promise<OpenedSession | SessionLock> {
    const { clock } = this.#deps;
    const key = sessionKeyOf(place);
    const own = this.#used.get(key);
    if (own?.unsharable === true && own.generation !== gone) return this.#goOn(own);
    let failedAt: number | null = null;
    let unsure = false;
    for (let lookMs = LOOK_MS; wanted(); ) {
      try {
        const entered = await this.#tryToEnter(place, key, gone);
        this.#openFailures = false;
        failedAt = null;
        if (entered === 'again') continue;
        if (entered !== null) return entered;
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        unsure = true;
        failedAt ??= clock.now();
        if (!this.#mayAnswer(key, gone, failedAt)) {
          void this.#settle(key);
          return this.#alone(place, key, gone);
        }
      }
      await pause(clock, lookMs);
      lookMs = Math.min(2 * lookMs, MAX_LOOK_MS);
    }
    if (unsure) void this.#settle(key);
    throw new GatewayError('NOT_SENT', 'no caller waits for the session any more', { server: place.server });
  }

  async known(place: SessionPlace): Promise<boolean> {
    const key = sessionKeyOf(place);
    const found = await this.#get(key).catch(() => null);
    return found === null ? this.#used.get(key) !== null : readWritten(found)?.sealed !== '';
  }

  join(place: SessionPlace, member: SessionMember): void {
    const key = sessionKeyOf(place);
    const own = this.#used.join(key, place, member);
    if (own?.unsharable === true) this.#listening.set(member, listenAlone(own, member));
    else this.streams.join(place, own?.key ?? key, member);
  }

  leave(place: SessionPlace, member: SessionMember): void {
    const key = sessionKeyOf(place);
    this.#used.leave(key, member);
    const leaveStream = this.#listening.get(member);
    this.#listening.delete(member);
    if (leaveStream === undefined) this.streams.leave(key, member);
    else leaveStream();
  }

  async end(
    place: SessionPlace,
    generation: string | null,
    withServer: boolean,
  ): Promise<UpstreamSessionRecord | null> {
    if (withServer && this.#known.instances(place.server).length > 0) return null;
    const key = sessionKeyOf(place);
    const own = this.#used.get(key);
    try {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const found = await this.#get(key);
        const held = found === null ? null : readWritten(found);
        if (found === null || held === null) break;
        if (held.by !== '' || (generation !== null && this.#generation(held, found.revision) !== generation))
          return null;
        if (!(await this.#bucket.delete(key, found.revision))) continue;
        this.#used.forget(key);
        return openRecord(this.#deps.sealing, key, held.sealed);
      }
    } catch (error) {
      this.#deps.logger.debug('server_session_not_ended', { server: place.server, error: String(error) });
    }
    // Unpublished: this node's alone.
    if (own === null || own.published || (generation !== null && own.generation !== generation)) return null;
    this.#used.forget(key);
    return own.record;
  }

  /** The store may have lost what is in use here. */
  reconnected(): void {
    this.#used.look();
  }

  close(): void {
    this.#closed = true;
    this.#used.close();
    this.#resealing?.close();
    this.streams.close();
  }

  get #connected(): boolean {
    return this.#deps.bus.status.state === 'connected';
  }

  /** Null: another node is opening it. Rejects with GatewayError. */
  async #tryToEnter(
    place: SessionPlace,
    key: string,
    gone: string | null,
  ): Promise<OpenedSession | SessionLock | 'again' | null> {
    const { bus } = this.#deps;
    const found = await this.#get(key);
    const held = found === null ? null : readWritten(found);
    const opened = held === null || found === null ? null : await this.#open(key, held, found, gone);
    if (opened !== null) return opened;
    const free = held === null || held.by === '' || held.by === bus.peer || !(await this.#claims.lives(held.by));
    return free ? ((await this.#begin(place, key, held, found, gone)) ?? 'again') : null;
  }

  /** This node does not know the session, and the store may answer in a moment. */
  #mayAnswer(key: string, gone: string | null, failedAt: number): boolean {
    const own = this.#used.get(key);
    if (!this.#connected || this.#openFailures || (own !== null && own.generation !== gone)) return false;
    this.#openFailures = this.#deps.clock.now() - failedAt >= SLOW_MS;
    return !this.#openFailures;
  }

  async #get(key: string): Promise<StateRecord | null> {
    if (!this.#connected) throw new GatewayError('NOT_SENT', 'the bus is not connected');
    return this.#bucket.get(key);
  }

  /** Extends the record; null if there is none. */
  async #open(
    key: string,
    held: WrittenSession,
    { revision }: StateRecord,
    gone: string | null,
  ): Promise<OpenedSession | 'again' | null> {
    if (held.by !== '' || this.#generation(held, revision) === gone) return null;
    const record = openRecord(this.#deps.sealing, key, held.sealed);
    if (record === null) return null;
    const generation = this.#generation(held, revision);
    const next: WrittenSession = { ...held, since: held.since ?? revision };
    if ((await this.#bucket.update(key, writtenText(next), revision)) === null) return 'again';
    const shared = this.#used.put(key, record, generation, { published: true });
    return { kind: 'open', record: shared, generation };
  }

  /** By a write on what was read; null if another node was faster. */
  async #begin(
    place: SessionPlace,
    key: string,
    held: WrittenSession | null,
    found: StateRecord | null,
    gone: string | null,
  ): Promise<SessionLock | null> {
    const replaces = gone !== null || held?.replaces === true || (held !== null && held.sealed !== '');
    const opening: WrittenSession = { by: this.#deps.bus.peer, since: null, replaces, sealed: '' };
    const revision =
      found === null
        ? await this.#bucket.create(key, writtenText(opening))
        : await this.#bucket.update(key, writtenText(opening), found.revision);
    if (revision === null) return null;
    this.#turns.add(key);
    return {
      kind: 'lock',
      replaces,
      opened: (record) => this.#publish(place, key, record, revision),
      failed: () => this.#free(key, replaces, revision),
    };
  }

  async #publish(place: SessionPlace, key: string, record: UpstreamSessionRecord, revision: number): Promise<string> {
    const sealed = sealRecord(this.#deps.sealing, key, record);
    const written: WrittenSession = { by: '', since: revision, replaces: false, sealed };
    const text = writtenText(written);
    if (text.length > MAX_RECORD_BYTES) return this.#keepToItself(place, key, record, revision, text.length);
    const generation = fencingToken(this.#bucket.incarnation, revision);
    let published = false;
    this.#turns.delete(key);
    try {
      const at = await this.#bucket.update(key, text, revision);
      if (at === null) throw new GatewayError('NOT_SENT', 'another node has opened the session');
      published = true;
    } catch (error) {
      if (!(error instanceof GatewayError) || this.#connected) {
        this.#settleLater(key);
        throw error;
      }
    }
    this.#used.put(key, record, generation, { published });
    return generation;
  }

  /** The store would never accept it: every node opens its own. */
  #keepToItself(
    { server }: SessionPlace,
    key: string,
    record: UpstreamSessionRecord,
    revision: number,
    bytes: number,
  ): string {
    this.#deps.logger.warn('server_session_not_shared', { server, bytes });
    void this.#free(key, false, revision);
    const generation = this.#used.ownGeneration();
    this.#used.put(key, record, generation, { published: false, unsharable: true });
    return generation;
  }

  /** Retried until done: others wait for this node while it lives. */
  async #free(key: string, replaces: boolean, revision: number): Promise<void> {
    this.#turns.delete(key);
    try {
      // The node that opens the next session reports the loss.
      const free: WrittenSession = { by: '', since: null, replaces: true, sealed: '' };
      if (replaces) await this.#bucket.update(key, writtenText(free), revision);
      else await this.#bucket.delete(key, revision);
    } catch {
      if (!this.#closed) this.#deps.clock.after(AGAIN_MS, () => void this.#free(key, replaces, revision));
    }
  }

  /** A write may have arrived without an answer: others must not wait for it. */
  async #settle(key: string): Promise<void> {
    try {
      const found = await this.#get(key);
      const held = found === null ? null : readWritten(found);
      if (found === null || held?.by !== this.#deps.bus.peer || this.#turns.has(key)) return;
      if (this.#used.get(key) === null) await this.#free(key, held.replaces, found.revision);
    } catch {
      this.#settleLater(key);
    }
  }

  #settleLater(key: string): void {
    if (!this.#closed) this.#deps.clock.after(AGAIN_MS, () => void this.#settle(key));
  }

  /** Without the store: the known session, or one of this node's own, published later. */
  #alone(place: SessionPlace, key: string, gone: string | null): OpenedSession | SessionLock {
    const own = this.#used.get(key);
    if (own !== null && own.generation !== gone) return this.#goOn(own);
    this.#deps.logger.warn('server_session_alone', { server: place.server });
    return {
      kind: 'lock',
      replaces: gone !== null,
      opened: async (record) => {
        const generation = this.#used.ownGeneration();
        this.#used.put(key, record, generation, { published: false });
        this.#tellSoon(key, MAX_TELLS);
        return generation;
      },
      failed: async () => {},
    };
  }

  /** Publishes a session opened without the store. */
  #tellSoon(key: string, times: number): void {
    this.#deps.clock.after(AGAIN_MS, () => {
      if (this.#closed || !this.#connected || this.#used.get(key)?.published !== false) return;
      this.#used.look();
      if (times > 1) this.#tellSoon(key, times - 1);
    });
  }

  #goOn({ record, generation }: UsedSession): OpenedSession {
    return { kind: 'open', record, generation };
  }

  #generation({ since }: WrittenSession, revision: number): string {
    return fencingToken(this.#bucket.incarnation, since ?? revision);
  }
}
