import { pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type {
  OpenedSession,
  SessionLock,
  SessionMember,
  SharedUpstreamSessions,
  UpstreamSessionRecord,
  UpstreamSessionRef,
} from '../../model/ports.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { Claims } from '../ownership/claims.ts';
import { Resealing } from '../resealing.ts';
import { isTooLarge } from '../store-records.ts';
import { SessionStreams } from './session-streams.ts';
import {
  type HeldSession,
  listenWithoutClaim,
  sessionKeyOf,
  type UsedSession,
  UsedSessions,
  type WrittenSession,
} from './used-sessions.ts';

const LOOK_MS = 50;
const MAX_LOOK_MS = 250;
/** Limit of retries against concurrent writers. */
const ATTEMPTS = 8;
const RETRY_MS = 1_000;
/** Time for a connected store that does not answer: it may be electing a leader. */
const SLOW_MS = 3_000;
const MAX_NOTICES = 30;

type Deps = Pick<ClusterDeps, 'bus' | 'state' | 'clock' | 'logger' | 'sealing'>;

/**
 * Sessions with HTTP servers, shared by all nodes through a record for each. The node that first writes the record opens the
 * session; a node replaces only the generation that the server rejected; the node that deletes the record ends the session.
 * Without the store a node uses the sessions that it knows and opens its own; if the store does not answer, it first waits.
 */
export class ClusterUpstreamSessions implements SharedUpstreamSessions {
  readonly streams: SessionStreams;
  readonly #deps: Deps;
  readonly #claims: Claims;
  readonly #known: Pick<KnownServers, 'instances'>;
  readonly #sessions: UsedSessions;
  /** For members of sessions that only this node can use: the function that ends listening. */
  readonly #listening = new Map<SessionMember, () => void>();
  #openFailures = false;

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
    const sessions = (this.#sessions = new UsedSessions(deps));
    this.streams = new SessionStreams(deps, claims, self, nodes);
    const { clock, logger, sealing } = deps;
    new Resealing({ bucket: sessions.bucket, sealing, clock, logger, reseal: (record) => sessions.reseal(record) });
  }

  async acquire(
    place: UpstreamSessionRef,
    rejected: string | null,
    wanted: () => boolean,
  ): Promise<OpenedSession | SessionLock> {
    const { clock } = this.#deps;
    const key = sessionKeyOf(place);
    const own = this.#sessions.get(key);
    if (own?.unsharable === true && own.generation !== rejected) return opened(own);
    let failedAt: number | null = null;
    let unsure = false;
    for (let lookMs = LOOK_MS; wanted(); lookMs = Math.min(2 * lookMs, MAX_LOOK_MS)) {
      try {
        const acquired = await this.#tryAcquire(place, key, rejected);
        this.#openFailures = false;
        failedAt = null;
        if (acquired !== null) return acquired;
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        unsure = true;
        failedAt ??= clock.now();
        if (!this.#mayAnswer(key, rejected, failedAt)) {
          void this.#settle(key);
          return this.#alone(place, key, rejected);
        }
      }
      await pause(clock, lookMs);
    }
    if (unsure) void this.#settle(key);
    throw new GatewayError('NOT_SENT', 'no caller waits for the session any more', { server: place.server });
  }

  async isOpen(place: UpstreamSessionRef): Promise<boolean> {
    const key = sessionKeyOf(place);
    const held = await this.#sessions.read(key).catch(() => null);
    return held === null ? this.#sessions.get(key) !== null : held.sealed !== '';
  }

  join(place: UpstreamSessionRef, member: SessionMember): void {
    const key = sessionKeyOf(place);
    const own = this.#sessions.join(key, place, member);
    if (own?.unsharable === true) this.#listening.set(member, listenWithoutClaim(own, member));
    else this.streams.join(place, own?.key ?? key, member);
  }

  leave(place: UpstreamSessionRef, member: SessionMember): void {
    const key = sessionKeyOf(place);
    this.#sessions.leave(key, member);
    const leaveStream = this.#listening.get(member);
    this.#listening.delete(member);
    if (leaveStream === undefined) this.streams.leave(key, member);
    else leaveStream();
  }

  async end(
    place: UpstreamSessionRef,
    generation: string | null,
    withServer: boolean,
  ): Promise<UpstreamSessionRecord | null> {
    if (withServer && this.#known.instances(place.server).length > 0) return null;
    const key = sessionKeyOf(place);
    const own = this.#sessions.get(key);
    const isOther = (its: string): boolean => generation !== null && its !== generation;
    try {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const held = await this.#sessions.read(key);
        if (held === null) break;
        if (held.by !== '' || isOther(this.#sessions.generation(held))) return null;
        if (!(await this.#sessions.bucket.delete(key, held.revision))) continue;
        this.#sessions.forget(key);
        return this.#sessions.open(key, held);
      }
    } catch (error) {
      this.#deps.logger.debug('server_session_not_ended', { server: place.server, error: String(error) });
    }
    // An unpublished session is this node's alone.
    if (own === null || own.published || isOther(own.generation)) return null;
    this.#sessions.forget(key);
    return own.record;
  }

  /** Checks the sessions in use, which the store may have lost. */
  reconnected(): void {
    this.#sessions.look();
  }

  /** Returns null if another node is opening the session, or wrote first. Rejects with GatewayError. */
  async #tryAcquire(
    place: UpstreamSessionRef,
    key: string,
    rejected: string | null,
  ): Promise<OpenedSession | SessionLock | null> {
    const sessions = this.#sessions;
    const held = await sessions.read(key);
    // Not the generation that the server rejected.
    const isOpen = held !== null && held.by === '' && sessions.generation(held) !== rejected;
    const record = isOpen ? sessions.open(key, held) : null;
    if (held !== null && record !== null) {
      const generation = sessions.generation(held);
      // Renews the TTL of the record.
      if ((await sessions.write(key, held, held)) === null) return null;
      return opened(sessions.put(key, record, generation, { published: true }));
    }
    const { bus } = this.#deps;
    const free = held === null || held.by === '' || held.by === bus.peer || !(await this.#claims.lives(held.by));
    return free ? this.#begin(place, key, held, rejected) : null;
  }

  /** Whether to wait: this node does not know the session, and the store may answer in a moment. */
  #mayAnswer(key: string, rejected: string | null, failedAt: number): boolean {
    const own = this.#sessions.get(key);
    if (!this.#sessions.connected || this.#openFailures || (own !== null && own.generation !== rejected)) return false;
    this.#openFailures = this.#deps.clock.now() - failedAt >= SLOW_MS;
    return !this.#openFailures;
  }

  async #begin(
    place: UpstreamSessionRef,
    key: string,
    held: HeldSession | null,
    rejected: string | null,
  ): Promise<SessionLock | null> {
    const replaces = rejected !== null || held?.replaces === true || (held !== null && held.sealed !== '');
    const opening: WrittenSession = { by: this.#deps.bus.peer, since: null, replaces, sealed: '' };
    const revision = await this.#sessions.write(key, opening, held);
    if (revision === null) return null;
    this.#sessions.turns.add(key);
    const mine: HeldSession = { ...opening, since: revision, revision };
    return {
      kind: 'lock',
      replaces,
      opened: (record) => this.#publish(place, key, record, mine),
      failed: () => this.#free(key, mine),
    };
  }

  async #publish(
    { server }: UpstreamSessionRef,
    key: string,
    record: UpstreamSessionRecord,
    mine: HeldSession,
  ): Promise<string> {
    const { since } = mine;
    const written: WrittenSession = { by: '', since, replaces: false, sealed: this.#sessions.seal(key, record) };
    const generation = this.#sessions.generation(mine);
    let published = false;
    this.#sessions.turns.delete(key);
    try {
      published = (await this.#sessions.write(key, written, mine)) !== null;
      if (!published) throw new GatewayError('NOT_SENT', 'another node has opened the session');
    } catch (error) {
      if (isTooLarge(error)) {
        // The store would never accept the record: every node opens its own session.
        this.#deps.logger.warn('server_session_not_shared', { server, error: error.message });
        void this.#free(key, { ...mine, replaces: false });
        return this.#keep(key, record, true);
      }
      if (!(error instanceof GatewayError) || this.#sessions.connected) {
        this.#retry(() => this.#settle(key));
        throw error;
      }
    }
    this.#sessions.put(key, record, generation, { published });
    return generation;
  }

  /** Keeps the session as this node's own. Returns its generation. */
  #keep(key: string, record: UpstreamSessionRecord, unsharable: boolean): string {
    const generation = this.#sessions.ownGeneration();
    this.#sessions.put(key, record, generation, { published: false, unsharable });
    return generation;
  }

  /** Frees the record; retries until done, because other nodes wait while this node lives. */
  async #free(key: string, mine: HeldSession): Promise<void> {
    this.#sessions.turns.delete(key);
    try {
      // Keep `replaces`: the node that opens the next session reports the loss.
      if (mine.replaces) await this.#sessions.write(key, { by: '', since: null, replaces: true, sealed: '' }, mine);
      else await this.#sessions.bucket.delete(key, mine.revision);
    } catch {
      this.#retry(() => this.#free(key, mine));
    }
  }

  /** Frees a record that this node wrote without an answer, so that other nodes do not wait for it. */
  async #settle(key: string): Promise<void> {
    try {
      const held = await this.#sessions.read(key);
      if (held?.by !== this.#deps.bus.peer || this.#sessions.turns.has(key) || this.#sessions.get(key) !== null) return;
      await this.#free(key, held);
    } catch {
      this.#retry(() => this.#settle(key));
    }
  }

  #retry(task: () => Promise<void>): void {
    this.#deps.clock.after(RETRY_MS, () => void task());
  }

  /** Without the store: returns the known session, or a lock for one of this node's own, published later. */
  #alone(place: UpstreamSessionRef, key: string, rejected: string | null): OpenedSession | SessionLock {
    const own = this.#sessions.get(key);
    if (own !== null && own.generation !== rejected) return opened(own);
    this.#deps.logger.warn('server_session_alone', { server: place.server });
    return {
      kind: 'lock',
      replaces: rejected !== null,
      opened: async (record) => {
        this.#notifySoon(key, MAX_NOTICES);
        return this.#keep(key, record, false);
      },
      failed: async () => {},
    };
  }

  /** Publishes a session opened without the store. */
  #notifySoon(key: string, times: number): void {
    this.#deps.clock.after(RETRY_MS, () => {
      if (!this.#sessions.connected || this.#sessions.get(key)?.published !== false) return;
      this.#sessions.look();
      if (times > 1) this.#notifySoon(key, times - 1);
    });
  }
}

function opened({ record, generation }: UsedSession): OpenedSession {
  return { kind: 'open', record, generation };
}
