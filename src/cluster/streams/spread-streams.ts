import type { Message } from '../../model/message.ts';
import type { ClientStreams } from '../../model/ports.ts';
import { headOf } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { OpenStreams, Side, SideMessages } from './side-messages.ts';

/** The clients of this node, and whether one of them listens here. */
interface OwnStreams extends ClientStreams {
  listening(sessionId: string): boolean;
  /** The sessions of all who do. */
  listeners(): Iterable<string>;
}

/** Sessions whose streams are remembered to be at another node. */
const MAX_SESSIONS = 65_536;
/** In one message. */
const MAX_PER_MESSAGE = 1_000;

/**
 * The streams of clients, wherever they hold them open: what is for a session goes to the node that has its stream, and
 * waits at the one that had it last.
 */
export class SpreadStreams implements ClientStreams, OpenStreams {
  readonly #messages: SideMessages;
  readonly #nodes: Nodes;
  readonly #at = new LruMap<string>(MAX_SESSIONS);
  /** Those whose node is gone. */
  readonly #lost = new LruMap<true>(MAX_SESSIONS);
  /** The nodes that know which streams are open here. */
  readonly #informed = new Set<string>();
  #own: OwnStreams | null = null;

  constructor(messages: SideMessages, nodes: Nodes) {
    this.#messages = messages;
    this.#nodes = nodes;
  }

  /** The clients of this node, which need their core, and so us, to be made. */
  attach(own: OwnStreams): void {
    this.#own = own;
  }

  /** A client opens a stream of its session here. Whether another node had it until now, as far as is known. */
  opened(sessionId: string): boolean {
    const moved = this.#at.peek(sessionId) !== undefined || this.#lost.peek(sessionId) !== undefined;
    this.#at.delete(sessionId);
    this.#lost.delete(sessionId);
    for (const { peer } of this.#nodes.others())
      this.#messages.tell(peer, { kind: 'streams', sessionIds: [sessionId] });
    return moved;
  }

  /** Nodes have come or gone: who has come hears which streams are open here. */
  met(): void {
    const there = new Set([...this.#nodes.others()].map(({ peer }) => peer));
    for (const peer of this.#informed) if (!there.has(peer)) this.#informed.delete(peer);
    for (const peer of there) {
      if (this.#informed.has(peer)) continue;
      this.#informed.add(peer);
      this.#tellAll(peer);
    }
  }

  /** What was said in an outage was not heard. */
  tellAgain(): void {
    this.#informed.clear();
    this.met();
  }

  openedAt(sessionId: string, peer: string): void {
    this.#at.set(sessionId, peer);
    this.#lost.delete(sessionId);
  }

  gone(peer: string): void {
    for (const [sessionId, at] of this.#at.entries()) if (at === peer) this.#lost.set(sessionId, true);
    this.#at.deleteWhere((at) => at === peer);
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
    this.#own?.deliver(sessionId, notification, server);
  }

  ask(sessionId: string, request: Message, server?: string): Promise<Message> {
    const peer = this.#peer(sessionId);
    if (peer === null) return this.askHere(sessionId, request, server);
    return this.#messages.askClient(peer, sessionId, request, server ?? null);
  }

  askHere(sessionId: string, request: Message, server?: string): Promise<Message> {
    return this.#own!.ask(sessionId, request, server);
  }

  sessionsFor(server: string): ReturnType<ClientStreams['sessionsFor']> {
    return this.#own?.sessionsFor(server) ?? [];
  }

  #tellAll(peer: string): void {
    const open = [...(this.#own?.listeners() ?? [])];
    for (let i = 0; i < open.length; i += MAX_PER_MESSAGE) {
      this.#messages.tell(peer, { kind: 'streams', sessionIds: open.slice(i, i + MAX_PER_MESSAGE) });
    }
  }

  #peer(sessionId: string): string | null {
    return this.#own?.listening(sessionId) === true ? null : (this.#at.peek(sessionId) ?? null);
  }
}
