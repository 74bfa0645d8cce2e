import type { Message } from '../../model/message.ts';
import type { ClientStreams } from '../../model/ports.ts';
import type { ClusterParts } from '../cluster-deps.ts';
import { headOf } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { OpenStreams, Side, SideMessages } from './side-messages.ts';

const MAX_SESSIONS = 65_536;
const MAX_PER_MESSAGE = 1_000;
/** Of a request that a node sent to a client (`PendingAsks`). */
const NODE_IN_ID = /^"([0-9a-f]{16})-\d+"$/;

/** Sends what is for a session to the node with its stream; without one it waits at the node that had it last. */
export class SpreadStreams implements ClientStreams, OpenStreams {
  readonly #messages: SideMessages;
  readonly #nodes: Nodes;
  /** Empty: at a node that is gone. This node: the others know. */
  readonly #at = new LruMap<string>(MAX_SESSIONS);
  readonly #informed = new Set<string>();
  readonly #own: Pick<ClusterParts, 'downstream' | 'bus'>;

  /** `own` needs this object to be constructed, and is read later. */
  constructor(messages: SideMessages, nodes: Nodes, own: Pick<ClusterParts, 'downstream' | 'bus'>) {
    this.#messages = messages;
    this.#nodes = nodes;
    this.#own = own;
  }

  /** Returns whether another node had it, as far as known. */
  opened(sessionId: string): boolean {
    const before = this.#at.peek(sessionId);
    const { peer: self } = this.#own.bus;
    if (before === self) return false;
    this.#at.set(sessionId, self);
    for (const { peer } of this.#nodes.others())
      this.#messages.tell(peer, { kind: 'streams', sessionIds: [sessionId] });
    return before !== undefined;
  }

  met(): void {
    const there = new Set([...this.#nodes.others()].map(({ peer }) => peer));
    for (const peer of this.#informed) if (!there.has(peer)) this.#informed.delete(peer);
    for (const peer of there) {
      if (this.#informed.has(peer)) continue;
      this.#informed.add(peer);
      this.#at.deleteWhere((at) => at === this.#own.bus.peer);
      this.#tellAll(peer);
    }
  }

  /** Messages during an outage were lost. */
  tellAgain(): void {
    this.#informed.clear();
    this.met();
  }

  openedAt(sessionId: string, peer: string): void {
    this.#at.set(sessionId, peer);
  }

  gone(peer: string): void {
    for (const [sessionId, at] of [...this.#at.entries()]) if (at === peer) this.#at.set(sessionId, '');
  }

  deliver(sessionId: string, notification: Message, server?: string): void {
    const peer = this.#peer(sessionId);
    if (peer === null) {
      this.deliverHere(sessionId, notification, server);
      return;
    }
    const side: Side = { kind: 'deliver', sessionId, message: headOf(notification), server: server ?? null };
    this.#messages.tell(peer, side, notification);
  }

  deliverHere(sessionId: string, notification: Message, server?: string): void {
    this.#own.downstream.deliver(sessionId, notification, server);
  }

  ask(sessionId: string, request: Message, server?: string): Promise<Message> {
    const peer = this.#peer(sessionId);
    if (peer === null) return this.askHere(sessionId, request, server);
    return this.#messages.askClient(peer, sessionId, request, server ?? null);
  }

  askHere(sessionId: string, request: Message, server?: string): Promise<Message> {
    return this.#own.downstream.ask(sessionId, request, server);
  }

  /**
   * What a client sent that belongs to nothing here. The id of an answer names the node that asked; only a cancellation goes to all
   * others, because the client chose the id, and the call may be at any of them.
   */
  forward(sessionId: string, message: Message): void {
    const side: Side = { kind: 'client', sessionId, message: headOf(message) };
    for (const peer of this.#meant(message)) this.#messages.tell(peer, side, message);
  }

  sessionsFor(server: string): ReturnType<ClientStreams['sessionsFor']> {
    return this.#own.downstream.sessionsFor(server);
  }

  #meant({ kind, id }: Message): readonly string[] {
    if (kind === 'notification') return Array.from(this.#nodes.others(), ({ peer }) => peer);
    const [, named] = NODE_IN_ID.exec(id) ?? [];
    return named === undefined || named === this.#own.bus.peer ? [] : [named];
  }

  #tellAll(peer: string): void {
    const open = [...this.#own.downstream.listeners()];
    for (let i = 0; i < open.length; i += MAX_PER_MESSAGE) {
      this.#messages.tell(peer, { kind: 'streams', sessionIds: open.slice(i, i + MAX_PER_MESSAGE) });
    }
  }

  #peer(sessionId: string): string | null {
    const at = this.#own.downstream.listening(sessionId) ? null : this.#at.peek(sessionId);
    return at === this.#own.bus.peer ? null : at || null;
  }
}
