import type { Message } from '../model/message.ts';
import type { ClientStreams } from '../model/ports.ts';
import { headOf } from './frame.ts';
import { Recent } from './recent.ts';
import type { Side, SideMessages } from './side-messages.ts';

/** The clients of this node, and whether one of them listens here. */
export interface OwnStreams extends ClientStreams {
  listening(sessionId: string): boolean;
}

export interface SpreadStreamsDeps {
  readonly messages: () => SideMessages;
  readonly others: () => Iterable<string>;
}

/** Sessions whose streams are remembered to be at another node. */
const MAX_SESSIONS = 65_536;

/**
 * The streams of clients, wherever they hold them open: what is for a session goes to the node that has its stream, and
 * waits at the one that had it last.
 */
export class SpreadStreams implements ClientStreams {
  readonly #deps: SpreadStreamsDeps;
  readonly #at = new Recent<string>(MAX_SESSIONS);
  #own: OwnStreams | null = null;

  constructor(deps: SpreadStreamsDeps) {
    this.#deps = deps;
  }

  /** The clients of this node, which need their core, and so us, to be made. */
  attach(own: OwnStreams): void {
    this.#own = own;
  }

  /** A client has opened a stream of its session here. */
  opened(sessionId: string): void {
    const { messages, others } = this.#deps;
    this.#at.delete(sessionId);
    for (const peer of others()) messages().tell(peer, { kind: 'stream', sessionId });
  }

  openedAt(sessionId: string, peer: string): void {
    this.#at.set(sessionId, peer);
  }

  gone(peer: string): void {
    this.#at.deleteWhere((at) => at === peer);
  }

  deliver(sessionId: string, notification: Message, server?: string): void {
    const peer = this.#peer(sessionId);
    if (peer === null) {
      this.deliverHere(sessionId, notification, server);
      return;
    }
    const side: Side = { kind: 'deliver', sessionId, message: headOf(notification), server: server ?? null };
    this.#deps.messages().tell(peer, side, notification);
  }

  deliverHere(sessionId: string, notification: Message, server?: string): void {
    this.#own?.deliver(sessionId, notification, server);
  }

  ask(sessionId: string, request: Message, server?: string): Promise<Message> {
    const peer = this.#peer(sessionId);
    if (peer === null) return this.askHere(sessionId, request, server);
    return this.#deps.messages().askClient(peer, sessionId, request, server ?? null);
  }

  askHere(sessionId: string, request: Message, server?: string): Promise<Message> {
    return this.#own!.ask(sessionId, request, server);
  }

  sessionsFor(server: string): ReturnType<ClientStreams['sessionsFor']> {
    return this.#own?.sessionsFor(server) ?? [];
  }

  #peer(sessionId: string): string | null {
    return this.#own?.listening(sessionId) === true ? null : (this.#at.peek(sessionId) ?? null);
  }
}
