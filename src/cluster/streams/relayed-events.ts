import type { ClientProfile } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { ConnectionChange, StateLoss, UpstreamEvents } from '../../model/ports.ts';
import type { ListKind } from '../../model/server-catalog.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { headOf } from '../frames/frame.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { OwnAdvertisement } from '../nodes/own-advertisement.ts';
import type { Users } from '../nodes/users.ts';
import type { Side, SideMessages } from './side-messages.ts';

/** What clients of other nodes may wait to hear of, on whichever connection it comes. */
const FOR_WATCHERS = /^notifications\/(resources\/updated$|tasks)/;

/**
 * Notifications and requests of the servers of this node, for the clients that they concern: what is one session's goes to the
 * node that has that session; the rest to all nodes that use the server here, and where it is more than this connection's
 * affair to those that have it too, because all nodes may share a session at it, whose events come to one node.
 */
export class RelayedEvents implements UpstreamEvents {
  /** This node's own gateway. */
  readonly #here: UpstreamEvents;
  readonly #users: Users;
  readonly #messages: SideMessages;
  readonly #known: KnownServers;
  readonly #own: OwnAdvertisement;

  constructor(here: UpstreamEvents, users: Users, messages: SideMessages, known: KnownServers, own: OwnAdvertisement) {
    this.#here = here;
    this.#users = users;
    this.#messages = messages;
    this.#known = known;
    this.#own = own;
  }

  notification(server: string, sessionId: string | null, message: Message, key: string): void {
    const holder = this.#holder(sessionId);
    if (holder === null) this.#here.notification(server, sessionId, message, key);
    const side: Side = { kind: 'notification', server, sessionId, key, message: headOf(message) };
    this.#tell(server, sessionId, side, message, FOR_WATCHERS.test(message.method));
  }

  async request(server: string, sessionId: string | null, message: Message, key: string): Promise<Message> {
    const holder = this.#holder(sessionId);
    if (holder === null) return this.#here.request(server, sessionId, message, key);
    try {
      return await this.#messages.ask(holder, server, sessionId, message, key);
    } catch (error) {
      const why = error instanceof GatewayError ? error.forCallers : 'the client could not be asked';
      return errorAnswer(message.id, CATALOGUE.METHOD_NOT_FOUND.rpc, why, null, message.era);
    }
  }

  outdated(server: string, notification: Message | null): void {
    this.#here.outdated(server, notification);
    const head = notification === null ? null : headOf(notification);
    this.#tell(server, null, { kind: 'outdated', server, message: head }, notification);
  }

  catalogChanged(server: string, fingerprint: string, lists: readonly ListKind[], key: string | null = null): void {
    this.#here.catalogChanged(server, fingerprint, lists, key);
    // What the process of one client lists is not in the lists of the server.
    if (key === null) this.#own.catalogChanged(server);
    else this.#own.statusChanged();
  }

  relisted(server: string): void {
    this.#own.relisted(server);
  }

  /** Clients of other nodes are notified where the lists differ. */
  listsAnnounced(server: string, key: string, methods: readonly string[]): void {
    this.#here.listsAnnounced?.(server, key, methods);
  }

  stateLost(server: string, sessionId: string, cause: StateLoss): void {
    if (this.#holder(sessionId) === null) this.#here.stateLost(server, sessionId, cause);
    this.#tell(server, sessionId, { kind: 'lost', server, sessionId, cause });
  }

  connectionChanged(server: string, key: string, change: ConnectionChange): void {
    this.#here.connectionChanged(server, key, change);
    this.#tell(server, null, { kind: 'changed', server, key, change }, null, change === 'missed');
  }

  /** Each node finds that out for itself. */
  nodeSilent(servedThere: (server: string, client: ClientProfile) => boolean): void {
    this.#here.nodeSilent?.(servedThere);
  }

  statusChanged(server: string, status: ServerStatus): void {
    this.#here.statusChanged(server, status);
    this.#own.statusChanged();
  }

  #holder(sessionId: string | null): string | null {
    return sessionId === null ? null : this.#users.holderOf(sessionId);
  }

  /** `instances`: also to the nodes that have the server. */
  #tell(server: string, sessionId: string | null, side: Side, message: Message | null = null, instances = true): void {
    const holder = this.#holder(sessionId);
    if (sessionId !== null && holder === null) return;
    const peers = holder === null ? new Set(this.#users.of(server)) : [holder];
    if (peers instanceof Set && instances) for (const peer of this.#known.instances(server)) peers.add(peer);
    for (const peer of peers) this.#messages.tell(peer, side, message);
  }
}
