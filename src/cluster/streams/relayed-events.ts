import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { ConnectionChange, StateLoss, UpstreamEvents } from '../../model/ports.ts';
import type { ListKind } from '../../model/server-catalog.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { failureAnswer } from '../../protocol/compose.ts';
import { headOf } from '../frames/frame.ts';
import type { ConsumerNodes } from '../nodes/consumer-nodes.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { OwnAdvertisement } from '../nodes/own-advertisement.ts';
import type { SideMessage, SideMessages } from './side-messages.ts';

/** Clients of other nodes may wait for these notifications, on any connection. */
const FOR_WATCHERS = /^notifications\/(resources\/updated$|tasks)/;

/**
 * Relays events of this node's servers: those of a session to the session's node, others to all nodes that use the server here.
 * Events that concern more than one connection also go to the nodes with the server, which may share its upstream session.
 */
export class RelayedEvents implements UpstreamEvents {
  readonly #here: UpstreamEvents;
  readonly #consumers: ConsumerNodes;
  readonly #messages: SideMessages;
  readonly #known: KnownServers;
  readonly #own: OwnAdvertisement;

  constructor(
    here: UpstreamEvents,
    consumers: ConsumerNodes,
    messages: SideMessages,
    known: KnownServers,
    own: OwnAdvertisement,
  ) {
    this.#here = here;
    this.#consumers = consumers;
    this.#messages = messages;
    this.#known = known;
    this.#own = own;
  }

  notification(server: string, sessionId: string | null, message: Message, key: string): void {
    const holder = this.#holder(sessionId);
    if (holder === null) this.#here.notification(server, sessionId, message, key);
    const side: SideMessage = { kind: 'notification', server, sessionId, key, message: headOf(message) };
    this.#publish(server, sessionId, side, message, FOR_WATCHERS.test(message.method));
  }

  async request(server: string, sessionId: string | null, message: Message, key: string): Promise<Message> {
    const holder = this.#holder(sessionId);
    if (holder === null) return this.#here.request(server, sessionId, message, key);
    try {
      return await this.#messages.ask(holder, server, sessionId, message, key);
    } catch (error) {
      // Servers do not ask again after METHOD_NOT_FOUND.
      const why = 'the client could not be asked';
      const known = error instanceof GatewayError ? error : new GatewayError('INTERNAL', why);
      return failureAnswer(message.id, known, message.era);
    }
  }

  contentChanged(server: string, notification: Message | null): void {
    this.#here.contentChanged(server, notification);
    const head = notification === null ? null : headOf(notification);
    this.#publish(server, null, { kind: 'outdated', server, message: head }, notification);
  }

  catalogChanged(server: string, fingerprint: string, lists: readonly ListKind[], key: string | null = null): void {
    this.#here.catalogChanged(server, fingerprint, lists, key);
    // The lists of one client's process are not those of the server.
    if (key === null) this.#own.catalogChanged(server);
    else this.#own.ownListsChanged(server);
  }

  relisted(server: string): void {
    this.#own.relisted(server);
  }

  /** Not relayed: other nodes notify their clients if lists differ. */
  listsAnnounced(server: string, key: string, methods: readonly string[]): void {
    this.#here.listsAnnounced?.(server, key, methods);
  }

  stateLost(server: string, sessionId: string, cause: StateLoss): void {
    if (this.#holder(sessionId) === null) this.#here.stateLost(server, sessionId, cause);
    this.#publish(server, sessionId, { kind: 'lost', server, sessionId, cause });
  }

  connectionChanged(server: string, key: string, change: ConnectionChange): void {
    this.#here.connectionChanged(server, key, change);
    this.#publish(server, null, { kind: 'changed', server, key, change }, null, change === 'missed');
  }

  /** Not relayed: each node detects it itself. */
  nodeSilent(servedThere: (server: string, client: ClientProfile) => boolean): void {
    this.#here.nodeSilent?.(servedThere);
  }

  statusChanged(server: string, status: ServerStatus): void {
    this.#here.statusChanged(server, status);
    this.#own.statusChanged(server, status);
  }

  #holder(sessionId: string | null): string | null {
    return sessionId === null ? null : this.#consumers.holderOf(sessionId);
  }

  /** `instances`: also sends it to the nodes that have the server. */
  #publish(
    server: string,
    sessionId: string | null,
    side: SideMessage,
    message: Message | null = null,
    instances = true,
  ): void {
    const holder = this.#holder(sessionId);
    if (sessionId !== null && holder === null) return;
    const peers = holder === null ? new Set(this.#consumers.of(server)) : [holder];
    if (peers instanceof Set && instances) for (const peer of this.#known.instances(server)) peers.add(peer);
    for (const peer of peers) this.#messages.send(peer, side, message);
  }
}
