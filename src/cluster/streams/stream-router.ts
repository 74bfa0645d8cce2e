import { chunks } from '../../model/chunks.ts';
import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { ClientStreams } from '../../model/ports.ts';
import type { ClusterParts } from '../cluster-deps.ts';
import { headOf } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { OpenStreams, SideMessage, SideMessages } from './side-messages.ts';

const MAX_SESSIONS = 65_536;
/** The id of a request that a node sent to a client (`PendingAsks`) names the node. */
const NODE_IN_ID = /^"([0-9a-f]{16})-\d+"$/;
/** A node that does not answer in this time counts as not having the stream. */
const ANSWER_MS = 1_500;
/** Shortest interval between requests for all streams, which every node answers in full. */
const SEEK_ALL_MS = 10_000;
/** Limit of held messages; each counts `HELD_BYTES` more than its own bytes. */
const MAX_HELD_BYTES = 16 * 1024 * 1024;
const HELD_BYTES = 512;
const GATHER_MS = 50;
/** That many ids fit into one message. */
const MAX_PER_MESSAGE = 1_000;
/** The place of a stream that no other node has, as far as they answered. */
const NONE = '-';

type Own = Pick<ClusterParts, 'downstream' | 'bus' | 'clock' | 'logger'>;

/**
 * Sends messages for a session to the node with its stream; without a stream they wait at the node that had it last. A node knows
 * the places that it used last, and asks all others for a place that it may have forgotten.
 */
export class StreamRouter implements ClientStreams, OpenStreams {
  readonly #messages: SideMessages;
  readonly #nodes: Nodes;
  readonly #at = new LruMap<string>(MAX_SESSIONS);
  /** Sessions whose stream is or was last at this node; true: this node has announced it to the others. */
  readonly #here = new LruMap<boolean>(MAX_SESSIONS);
  readonly #informed = new Set<string>();
  readonly #own: Own;
  readonly #opened: IdBatcher;
  readonly #sought: IdBatcher;
  readonly #soughtAll: IdBatcher;
  /** Held messages, by session. */
  readonly #held = new Map<string, (() => void)[]>();
  #heldBytes = 0;
  /** Announcements may have been lost. */
  #missed = false;
  /** This node has met another one. */
  #met = false;

  /** The construction of `own.downstream` needs this object, so it is read later. */
  constructor(messages: SideMessages, nodes: Nodes, own: Own) {
    this.#messages = messages;
    this.#nodes = nodes;
    this.#own = own;
    this.#opened = new IdBatcher(own.clock, (sessionIds) => this.#announce(sessionIds));
    this.#sought = new IdBatcher(own.clock, (sessionIds) => this.#seek(sessionIds));
    const seekAll = () => messages.broadcast({ kind: 'sought', sessionIds: [] });
    this.#soughtAll = new IdBatcher(own.clock, seekAll, SEEK_ALL_MS);
  }

  /** Returns whether another node had, or may have had, the stream. */
  opened(sessionId: string): boolean {
    const announced = this.#here.get(sessionId);
    if (announced === true) return false;
    const before = this.#at.get(sessionId);
    this.#at.delete(sessionId);
    this.#here.set(sessionId, true);
    this.#opened.add(sessionId);
    this.#send(sessionId);
    if (announced === false) return false;
    return before === undefined ? this.#mayBeIncomplete : before !== NONE;
  }

  announceToNewNodes(): void {
    const there = new Set([...this.#nodes.others()].map(({ peer }) => peer));
    for (const peer of this.#informed) if (!there.has(peer)) this.#informed.delete(peer);
    for (const peer of there) {
      if (this.#informed.has(peer)) continue;
      this.#informed.add(peer);
      this.#met = true;
      this.#here.replace(true, false);
      for (const sessionIds of chunks([...this.#own.downstream.listeners()], MAX_PER_MESSAGE))
        this.#messages.send(peer, { kind: 'streams', sessionIds });
    }
  }

  /** Announces and, unless this node has met no other yet, asks again: messages to and from this node may have been lost. */
  resync(): void {
    if (this.#met) {
      this.#missed = true;
      this.#soughtAll.add('');
    }
    this.announceAgain();
  }

  /** Announces all streams again: other nodes may have considered this one gone. */
  announceAgain(): void {
    this.#informed.clear();
    this.announceToNewNodes();
  }

  openedAt(sessionId: string, peer: string): void {
    this.#here.delete(sessionId);
    this.#at.set(sessionId, peer);
    this.#send(sessionId);
  }

  /** Ignores an answer that is out of date: the stream may have been opened since the question. */
  foundAt(sessionId: string, peer: string): void {
    if (!this.#isHere(sessionId) && this.#peer(sessionId) === null) this.openedAt(sessionId, peer);
  }

  answerSearch(peer: string, sessionIds: readonly string[]): void {
    if (peer === this.#own.bus.peer) return;
    const here = sessionIds.filter((sessionId) => this.#isHere(sessionId));
    if (here.length > 0) this.#messages.send(peer, { kind: 'found', sessionIds: here });
    if (sessionIds.length > 0) return;
    this.#informed.delete(peer);
    this.announceToNewNodes();
  }

  ended(sessionId: string): void {
    this.#at.delete(sessionId);
    this.#here.delete(sessionId);
  }

  deliver(sessionId: string, notification: Message, server?: string): void {
    this.#whenKnown(sessionId, notification, () => {
      const peer = this.#peer(sessionId);
      if (peer === null) {
        this.#own.downstream.deliver(sessionId, notification, server);
        return;
      }
      const side: SideMessage = { kind: 'deliver', sessionId, message: headOf(notification), server: server ?? null };
      this.#messages.send(peer, side, notification);
    });
  }

  ask(sessionId: string, request: Message, server?: string): Promise<Message> {
    return new Promise((resolve) => {
      this.#whenKnown(sessionId, request, () => {
        const peer = this.#peer(sessionId);
        if (peer === null) resolve(this.#own.downstream.ask(sessionId, request, server));
        else resolve(this.#messages.askClient(peer, sessionId, request, server ?? null));
      });
    });
  }

  /**
   * Forwards a client's message that belongs to nothing here. The id of an answer names the node that asked; a notification (a
   * cancellation) goes to all others, because the client chose the id, and the call may be at any of them.
   */
  forward(sessionId: string, message: Message): void {
    const side: SideMessage = { kind: 'client', sessionId, message: headOf(message) };
    for (const peer of this.#targets(message)) this.#messages.send(peer, side, message);
  }

  sessionsFor(server: string): ReturnType<ClientStreams['sessionsFor']> {
    return this.#own.downstream.sessionsFor(server);
  }

  #targets({ kind, id }: Message): readonly string[] {
    if (kind === 'notification') return Array.from(this.#nodes.others(), ({ peer }) => peer);
    const [, named] = NODE_IN_ID.exec(id) ?? [];
    return named === undefined || named === this.#own.bus.peer ? [] : [named];
  }

  #announce(opened: readonly string[]): void {
    const sessionIds = opened.filter((sessionId) => this.#here.get(sessionId) !== undefined);
    for (const { peer } of this.#nodes.others()) this.#messages.send(peer, { kind: 'streams', sessionIds });
  }

  /** Asks all nodes. No answer in time means no stream; a later answer counts too. Nodes of the version before do not answer. */
  #seek(sessionIds: readonly string[]): void {
    this.#messages.broadcast({ kind: 'sought', sessionIds });
    this.#own.clock.after(ANSWER_MS, () => {
      for (const sessionId of sessionIds) {
        if (!this.#held.has(sessionId)) continue;
        if (this.#reachesOthers) this.#at.set(sessionId, NONE);
        this.#send(sessionId);
      }
    });
  }

  /** Sends at once if the place is known, otherwise after asking the other nodes. */
  #whenKnown(sessionId: string, { bytes }: Message, send: () => void): void {
    const held = this.#held.get(sessionId);
    if (held === undefined && !this.#isUnknown(sessionId)) {
      send();
      return;
    }
    const size = bytes.length + HELD_BYTES;
    if (this.#heldBytes + size > MAX_HELD_BYTES) {
      this.#own.logger.warn('stream_not_sought', { effect: 'a message counts as for a client of this node' });
      send();
      return;
    }
    this.#heldBytes += size;
    const sendHeld = (): void => {
      this.#heldBytes -= size;
      send();
    };
    if (held !== undefined) held.push(sendHeld);
    else {
      this.#held.set(sessionId, [sendHeld]);
      this.#sought.add(sessionId);
    }
  }

  #send(sessionId: string): void {
    const held = this.#held.get(sessionId);
    if (held === undefined) return;
    this.#held.delete(sessionId);
    for (const send of held) send();
  }

  /** Whether a stream that this node does not know may be at another node. */
  get #mayBeIncomplete(): boolean {
    return this.#missed || this.#at.dropped;
  }

  get #reachesOthers(): boolean {
    return this.#own.bus.connected && this.#informed.size > 0;
  }

  #isUnknown(sessionId: string): boolean {
    const known = !this.#mayBeIncomplete || this.#isHere(sessionId) || this.#at.get(sessionId) !== undefined;
    return !known && this.#reachesOthers;
  }

  #isHere(sessionId: string): boolean {
    return this.#own.downstream.listening(sessionId) || this.#here.get(sessionId) !== undefined;
  }

  #peer(sessionId: string): string | null {
    const at = this.#isHere(sessionId) ? NONE : (this.#at.get(sessionId) ?? NONE);
    // The place of a lost node counts again if the node returns.
    return this.#nodes.get(at) === null ? null : at;
  }
}

/** Passes on the first id at once, and the ids of each following `gatherMs` in one batch. */
class IdBatcher {
  readonly #clock: Clock;
  readonly #pass: (ids: readonly string[]) => void;
  readonly #gatherMs: number;
  readonly #ids = new Set<string>();
  #pausing = false;

  constructor(clock: Clock, pass: (ids: readonly string[]) => void, gatherMs = GATHER_MS) {
    this.#gatherMs = gatherMs;
    this.#clock = clock;
    this.#pass = pass;
  }

  add(id: string): void {
    this.#ids.add(id);
    if (!this.#pausing) this.#flush();
  }

  #flush(): void {
    const ids = [...this.#ids];
    this.#ids.clear();
    this.#pausing = ids.length > 0;
    if (!this.#pausing) return;
    this.#clock.after(this.#gatherMs, () => this.#flush());
    for (const some of chunks(ids, MAX_PER_MESSAGE)) this.#pass(some);
  }
}
