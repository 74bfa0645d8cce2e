import { chunks } from '../../model/chunks.ts';
import { every } from '../../model/clock.ts';
import type { SessionMember, UpstreamSessionRef } from '../../model/ports.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { Claims } from '../ownership/claims.ts';
import type { Claim } from '../ownership/own-claims.ts';

const SUBJECT = 'trunkline.unheard';
const PREFIX = 'stream ';
/** Interval of retries; five of them take as long as it takes to end the lease of a dead node. */
const LOOK_MS = 500;
/** Interval of retries for all streams, in case this node missed that one has no listener. */
const LEVEL_MS = 60_000;
const MAX_PER_MESSAGE = 100;
/** Longer event ids are not published; the next listener then does not know where to resume. */
const MAX_AFTER = 512;

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>;

interface StreamMember {
  readonly server: string;
  readonly key: string;
  readonly member: SessionMember;
  listening: boolean;
  /** Whether the member listens since it opened the session, without the claim yet. */
  early: boolean;
  /** Peer of the node that listens; null while unknown, or if it is this node. */
  owner: string | null;
  /** Last event of the last listener, here or at another node; null if unknown, or while a node listens. */
  after: string | null;
  /** Whether a node listened before, so that events since then may be lost. */
  gap: boolean;
  trying: boolean;
  /** The stream was left while this node tried: it tries again, from the event that the listener named. */
  again: boolean;
  disarm: (() => void) | null;
}

interface UnattendedStreams {
  readonly streams: readonly { readonly key: string; readonly after: string | null }[];
}

/**
 * One node listens to a shared session's own stream: the owner of the stream's claim. When it leaves, it announces the last event
 * that it received; when it dies, the claim ends with its lease.
 */
export class SessionStreams {
  readonly #deps: Deps;
  readonly #claims: Claims;
  readonly #self: Pick<OwnNode, 'able'>;
  readonly #nodes: Pick<Nodes, 'get'>;
  readonly #entries = new Map<string, StreamMember>();

  constructor(deps: Deps, claims: Claims, self: Pick<OwnNode, 'able'>, nodes: Pick<Nodes, 'get'>) {
    this.#deps = deps;
    this.#claims = claims;
    this.#self = self;
    this.#nodes = nodes;
    deps.bus.subscribe(SUBJECT, (payload, from) => {
      if (from !== deps.bus.peer) this.#onUnattended(unpackFrame<UnattendedStreams>(payload).header, from);
    });
    every(deps.clock, LEVEL_MS, () => this.#tryAll());
  }

  /** May call `member.listen` from now on. */
  join({ server }: UpstreamSessionRef, key: string, member: SessionMember): void {
    const before = this.#entries.get(key);
    const entry: StreamMember = {
      server,
      key,
      member,
      listening: false,
      early: member.listens,
      owner: null,
      after: null,
      gap: before !== undefined,
      trying: false,
      again: false,
      disarm: null,
    };
    before?.disarm?.();
    this.#entries.set(key, entry);
    if (entry.early && !this.#self.able) this.#silence(entry, false);
    void this.#try(entry);
  }

  leave(key: string, member: SessionMember): void {
    const entry = this.#entries.get(key);
    if (entry?.member !== member) return;
    entry.disarm?.();
    this.#entries.delete(key);
    // Another node listens.
    if (entry.owner !== null && !entry.trying) return;
    if (entry.listening) entry.after = entry.member.stopListening();
    entry.listening = false;
    // Another connection of this node may join at once. Without a lease the claim is released later.
    queueMicrotask(() => {
      if (!this.#entries.has(key)) void this.#giveUp(entry);
    });
  }

  /** Returns false if the claim is not that of a stream. */
  lost({ key }: Claim): boolean {
    if (!key.startsWith(PREFIX)) return false;
    const entry = this.#entries.get(key.slice(PREFIX.length));
    if (entry !== undefined) this.#silence(entry, true);
    return true;
  }

  fenced(): void {
    for (const entry of this.#entries.values()) this.#silence(entry, false);
  }

  regained(): void {
    this.#deps.clock.after(0, () => this.#tryAll());
  }

  gone(peer: string): void {
    for (const entry of this.#entries.values()) if (entry.owner === peer) void this.#try(entry);
  }

  drain(): void {
    const left: { key: string; after: string | null }[] = [];
    const released: Promise<void>[] = [];
    for (const [key, entry] of this.#entries) {
      if (!entry.listening) continue;
      this.#silence(entry, false);
      left.push({ key, after: entry.after });
      released.push(this.#release(entry));
    }
    void Promise.all(released).then(() => this.#announce(left));
  }

  async #try(entry: StreamMember): Promise<void> {
    const { logger, clock } = this.#deps;
    if (entry.trying || entry.listening || !this.#self.able || !this.#present(entry)) return;
    entry.trying = true;
    entry.disarm?.();
    entry.disarm = null;
    try {
      const owner = await this.#claims.claim(entry.server, PREFIX + entry.key);
      if (owner.kind === 'theirs') {
        entry.owner = owner.peer;
        // The current listener receives later events.
        if (!entry.again) entry.after = null;
        entry.gap = true;
        entry.early = false;
        entry.member.stopListening();
        if (this.#nodes.get(owner.peer) === null) entry.disarm = clock.after(LOOK_MS, () => void this.#try(entry));
      } else if (!this.#present(entry)) {
        if (!this.#entries.has(entry.key)) await this.#giveUp(entry);
      } else if (this.#self.able) {
        entry.owner = null;
        entry.listening = true;
        if (!entry.early) entry.member.listen(entry.after, (entry.gap || !owner.claim.fresh) && entry.after === null);
        entry.early = false;
        entry.after = null;
      } else {
        // This node has begun to drain, or has lost its lease.
        await this.#giveUp(entry);
      }
    } catch (error) {
      logger.debug('stream_not_claimed', { server: entry.server, error: String(error) });
      entry.disarm = clock.after(LOOK_MS, () => void this.#try(entry));
    } finally {
      entry.trying = false;
      if (entry.again) void this.#try(entry);
      entry.again = false;
    }
  }

  #silence(entry: StreamMember, taken: boolean): void {
    if (!entry.listening && !entry.early) return;
    entry.listening = false;
    entry.early = false;
    const after = entry.member.stopListening();
    entry.after = taken ? null : after;
    entry.gap = true;
    if (taken) void this.#try(entry);
  }

  #onUnattended({ streams }: UnattendedStreams, from: string): void {
    for (const { key, after } of streams) {
      const entry = this.#entries.get(key);
      if (entry === undefined || entry.listening || (entry.owner !== null && entry.owner !== from)) continue;
      entry.after = after;
      entry.again = entry.trying;
      void this.#try(entry);
    }
  }

  #tryAll(): void {
    for (const entry of this.#entries.values()) if (!entry.listening) void this.#try(entry);
  }

  #announce(streams: UnattendedStreams['streams']): void {
    for (const some of chunks(streams, MAX_PER_MESSAGE)) {
      const unattended: UnattendedStreams = {
        streams: some.map(({ key, after }) => ({ key, after: (after?.length ?? 0) > MAX_AFTER ? null : after })),
      };
      this.#deps.bus.publish(SUBJECT, packFrame(unattended));
    }
  }

  #present(entry: StreamMember): boolean {
    return this.#entries.get(entry.key) === entry;
  }

  async #giveUp(entry: StreamMember): Promise<void> {
    await this.#release(entry);
    this.#announce([{ key: entry.key, after: entry.after }]);
  }

  /** Deletes the claim; a member that joins again claims the stream again. */
  #release({ server, key }: StreamMember): Promise<void> {
    return this.#claims.release(server, PREFIX + key, true);
  }
}
