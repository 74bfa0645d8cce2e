import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ListKind, ServerCatalog } from '../model/server-catalog.ts';
import type { ServerState, ServerStatus } from '../model/server-state.ts';
import { keyAt } from './calls/shared-instances.ts';
import { type CallParts, ClusterCalls } from './cluster-calls.ts';
import type { LocalUpstreams } from './cluster-deps.ts';
import { clientText, headOf } from './frames/frame.ts';
import type { Advertisements } from './nodes/advertisements.ts';
import { ANY_SESSION } from './nodes/catalog-codec.ts';
import type { ConsumerNodes } from './nodes/consumer-nodes.ts';
import { ForeignCatalogs, type ShownCatalogs } from './nodes/foreign-catalogs.ts';
import { InitialSync } from './nodes/initial-sync.ts';
import {
  allRestarted,
  fallbackInstances,
  instanceToRead,
  needsLease,
  type Restart,
  runningElsewhere,
  statusElsewhere,
} from './nodes/instances.ts';
import { ListsElsewhere } from './nodes/lists-elsewhere.ts';
import { whyLost } from './nodes/lost-instances.ts';
import type { OwnAdvertisement } from './nodes/own-advertisement.ts';
import { ProcessLists } from './nodes/process-lists.ts';
import { type Place, type RemoteInstance, runsOnce } from './nodes/routing-table.ts';
import { affinity } from './ownership/placement.ts';
import type { SideMessage, SideMessages } from './streams/side-messages.ts';

interface UpstreamParts extends CallParts {
  readonly advertisements: Advertisements;
  readonly own: OwnAdvertisement;
  readonly messages: SideMessages;
  readonly consumers: ConsumerNodes;
}

/** The upstreams of all nodes. Reads catalogs from the nodes of the servers; routes calls to the node that serves the client. */
export class ClusterUpstreams implements Upstreams, ShownCatalogs {
  readonly calls: ClusterCalls;
  readonly initialSync: InitialSync;
  readonly #parts: UpstreamParts;
  readonly #catalogs: ForeignCatalogs;
  readonly #lists: ListsElsewhere;
  readonly #processes: ProcessLists;

  constructor(parts: UpstreamParts) {
    const { deps, advertisements, own, consumers: users } = parts;
    this.#parts = parts;
    const catalogs = (this.#catalogs = new ForeignCatalogs(deps, users, this));
    this.initialSync = new InitialSync(deps.clock, advertisements, catalogs.first);
    this.calls = new ClusterCalls(parts, catalogs, this);
    const { shared } = this.calls;
    const elsewhere = shared.elsewhere.bind(shared);
    const processes = (this.#processes = new ProcessLists({ deps, own, catalogs, elsewhere }));
    this.#lists = new ListsElsewhere({ deps, advertisements, catalogs, shown: this, processes });
  }

  servers(): readonly Server[] {
    return this.#parts.known.servers;
  }

  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    return this.calls.call(server, request, exchange);
  }

  notify(server: string, notification: Message, client: ClientProfile): void {
    const peer = this.#peer(server, client);
    const side: SideMessage = { kind: 'notify', server, client: clientText(client), message: headOf(notification) };
    if (peer === null) this.#local.notify(server, notification, client);
    else this.#parts.messages.send(peer, side, notification);
  }

  knownCatalog(server: string, client: ClientProfile, orOthers = false): ServerCatalog | null {
    const place = this.#parts.known.place(server);
    if (place === undefined) return this.#local.knownCatalog(server, client, orOthers);
    const theirs = this.#processes.known(place, client);
    if (!this.#listedHere(place)) return theirs ?? this.#knownElsewhere(server, client, orOthers);
    const here = this.#local.knownCatalog(server, client, orOthers);
    const known = here?.own === true ? here : (theirs ?? here);
    if (known !== null) return known;
    for (const instance of this.#readInstead(place, client)) {
      const theirs = this.#catalogs.knownAt(instance, client);
      if (theirs !== null) return theirs;
    }
    return this.#knownElsewhere(server, client, orOthers);
  }

  #knownElsewhere(server: string, client: ClientProfile, orOthers: boolean): ServerCatalog | null {
    return this.#catalogs.known(server, client) ?? (orOthers ? this.#catalogs.first.get(server) : null);
  }

  listSourceKey(client: ClientProfile): string {
    return this.#processes.listSourceKey(client);
  }

  async catalog(
    server: string,
    client: ClientProfile,
    waitMs: number,
    amongOthers = false,
  ): Promise<ServerCatalog | null> {
    const local = this.#local;
    const catalogs = this.#catalogs;
    const place = this.#parts.known.place(server);
    if (place !== undefined) {
      const processes = this.#processes;
      const theirs = waitMs > 0 ? await processes.get(place, client) : processes.known(place, client);
      if (theirs !== null) return theirs;
    }
    if (place === undefined || this.#listedHere(place)) {
      const own = await local.catalog(server, client, waitMs, amongOthers);
      if (own !== null || place === undefined) return own;
      for (const instance of this.#readInstead(place, client)) {
        const theirs = await catalogs.get(instance, client, waitMs, amongOthers);
        if (theirs !== null) return theirs;
      }
      return null;
    }
    const instance = this.#instanceFor(place, client);
    if (instance !== null) return catalogs.get(instance, client, waitMs, amongOthers);
    return catalogs.known(server, client);
  }

  sessionKey(server: string, client: ClientProfile): string | null {
    const place = this.#parts.known.place(server);
    const kept = place === undefined ? null : this.calls.shared.elsewhere(place, client);
    if (place === undefined || (place.here && kept === null && this.#peer(server, client) === null))
      return this.#local.sessionKey(server, client);
    const catalogs = this.#catalogs;
    const shared = affinity(place, client, this) === null ? catalogs.sharedKey(server, client) : null;
    const key = catalogs.key(server, client) ?? shared ?? this.#processes.keyOf(place, client);
    if (kept === null) return key;
    const there = key ?? this.#local.sessionKey(server, client);
    return there === null ? null : keyAt(there, kept.node.peer);
  }

  ownsConnection(server: string, client: ClientProfile): boolean {
    if (this.#peer(server, client) === null) return this.#local.ownsConnection(server, client);
    return this.#catalogs.owns(server, client);
  }

  /** A client's calls to its own process go to one node, and so do its list requests, even before its first call. */
  async ownsConnectionElsewhere(server: string, client: ClientProfile): Promise<boolean> {
    const place = this.#parts.known.place(server);
    const instance = place === undefined ? null : await this.calls.ownerElsewhere(place, client);
    return instance !== null && this.#catalogs.ownedThere(instance, client);
  }

  async awaitPendingLists(server: string, exchange: Exchange, list: ListKind, name: string): Promise<boolean> {
    const local = this.#local;
    const place = this.#parts.known.place(server);
    if (place === undefined) return false;
    const listed = place.here && (await local.awaitPendingLists?.(server, exchange, list, name)) === true;
    const known = listed ? this.knownCatalog(server, exchange.client)?.lists[list].items : null;
    if (place.otherInstances.length === 0 || known?.some(({ key }) => key === name) === true) return listed;
    const found = await this.#lists.foundElsewhere(place, exchange, list, name);
    await this.#processes.get(place, exchange.client);
    return found;
  }

  status(server: string, client: ClientProfile | null = null): ServerStatus | null {
    return this.#statusElsewhere(this.#parts.known.place(server)) ?? this.#local.status(server, client);
  }

  state(server: string, client: ClientProfile | null = null): ServerState | null {
    return this.#statusElsewhere(this.#parts.known.place(server))?.state ?? this.#local.state(server, client);
  }

  statuses(): readonly ServerStatus[] {
    const all = new Map(this.#local.statuses().map((status) => [status.name, status]));
    for (const place of this.#parts.known.places()) {
      const status = this.#statusElsewhere(place);
      if (status !== null) all.set(place.server.name, status);
    }
    return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Restarts all instances, even if one fails, and then reads their new status. Stops none if one could not start again. */
  async restart(server: string): Promise<void> {
    const local = this.#local;
    const place = this.#parts.known.place(server);
    if (place === undefined) return local.restart(server);
    if (place.lost !== null) {
      throw new GatewayError('NOT_SENT', `${server}: ${whyLost(place.lost, this.calls.reached)}`, { server });
    }
    const others = runningElsewhere(place);
    const here = this.#listedHere(place) || others.length === 0;
    this.#refuseUnleased(place, here, others);
    const restarts = this.calls.reached ? this.#restartsAt(others, server) : [this.#notReached(server)];
    if (here) restarts.push({ at: 'this node', done: local.restart(server) });
    await allRestarted(server, restarts);
    if (!here) await this.#parts.advertisements.readNow(others.map(({ node }) => node.peer));
  }

  /** Throws before any instance is stopped if one could not start again for lack of a lease. */
  #refuseUnleased(place: Place, here: boolean, others: readonly RemoteInstance[]): void {
    const { name } = place.server;
    const reason = this.#parts.self.noLeaseReason ?? (this.calls.reached ? null : 'this node does not reach NATS');
    const without = others.filter(({ node: { state } }) => state === 'fenced' || state === 'joining');
    const unable = without.map(({ node }) => `node ${node.id} has no lease`);
    if (here && reason !== null) unable.unshift(reason);
    if (unable.length === 0 || !needsLease(place, this.status(name)?.era ?? null)) return;
    const text = `nothing was restarted, because ${name} could not start again: ${unable.join('; ')}`;
    throw new GatewayError('NOT_SENT', text, { server: name });
  }

  #restartsAt(others: readonly RemoteInstance[], server: string): Restart[] {
    const { messages } = this.#parts;
    return others.map(({ node }) => ({ at: `node ${node.id}`, done: messages.restart(node.peer, server) }));
  }

  #notReached(server: string): Restart {
    const holders = this.#parts.known.holders(server);
    const at = holders.length === 0 ? 'other nodes' : `node ${holders.join(', ')}`;
    const text = 'not restarted, because this node does not reach NATS';
    return { at, done: Promise.reject(new GatewayError('NOT_SENT', text, { server })) };
  }

  releaseSession(sessionId: string): void {
    this.released(sessionId);
    for (const peer of this.calls.forgetSession(sessionId))
      this.#parts.messages.send(peer, { kind: 'release', sessionId });
    this.#catalogs.forgetSession(sessionId);
  }

  released(sessionId: string): void {
    this.calls.relayed.sessionEnded(sessionId);
    this.#local.releaseSession(sessionId);
    this.#parts.servers.owned.claims.releaseSession(sessionId);
  }

  definition(server: string): Server | undefined {
    return this.#parts.known.place(server)?.server;
  }

  /** The remote instance whose catalog clients see; null if this node lists the server, or if there is none. */
  instanceOf(server: string): RemoteInstance | null {
    const place = this.#parts.known.place(server);
    if (place === undefined) return null;
    return this.#listedHere(place) ? null : instanceToRead(place);
  }

  /** Like `instanceOf`, for a client whose catalog came from `peer`, which stays the source while this node has no catalog. */
  sourceFor(server: string, client: ClientProfile, peer: string): RemoteInstance | null {
    const place = this.#parts.known.place(server);
    if (place === undefined || !this.#listedHere(place)) return this.instanceOf(server);
    if (this.#local.knownCatalog(server, client) !== null) return null;
    return place.otherInstances.find(({ node }) => node.peer === peer) ?? null;
  }

  /** Reports that the clients of the node lost what was set up there. */
  nodeSilent(peer: string): void {
    const { known } = this.#parts;
    const had = ({ otherInstances }: Place): boolean => otherInstances.some(({ node }) => node.peer === peer);
    if (!known.places().some(had)) return;
    this.#parts.events.nodeSilent?.((server, client) => {
      const place = known.place(server);
      if (place === undefined || !had(place)) return false;
      const at = this.calls.shared.elsewhere(place, client)?.node.peer ?? this.calls.peerOf(place, client);
      return at === null ? !place.here : at === peer;
    });
  }

  /** Called after these servers were added, removed or changed, at any node. */
  refresh(servers: ReadonlySet<string>): void {
    const { known } = this.#parts;
    if (servers.size === 0) return;
    for (const name of servers) {
      const place = known.place(name);
      this.#lists.look(name, place);
      this.#processes.look(name, place);
      if (place === undefined) this.#catalogs.first.forget(name);
      else this.#lookFirst(place);
    }
    this.#catalogs.refresh((server) => known.isLost(server), servers);
  }

  /** A starting node shows the lists of other nodes until it has listed its own servers. */
  #lookFirst(place: Place): void {
    const { name } = place.server;
    const { first } = this.#catalogs;
    const unlisted = place.here && this.#local.knownCatalog(name, ANY_SESSION, true) === null;
    const instead = unlisted && (!this.initialSync.isOver || first.get(name) !== null) ? instanceToRead(place) : null;
    first.look(place, this.instanceOf(name) ?? instead);
  }

  get #local(): LocalUpstreams {
    return this.#parts.deps.local;
  }

  /** Null if this node lists the server. */
  #statusElsewhere(place: Place | undefined): ServerStatus | null {
    return place === undefined || this.#listedHere(place) ? null : statusElsewhere(place, this.calls.reached);
  }

  /** The peer that serves the client; null if it is this node or unknown. */
  #peer(server: string, client: ClientProfile): string | null {
    const place = this.#parts.known.place(server);
    return place === undefined ? null : this.calls.peerOf(place, client);
  }

  /** Whether this node lists the server. The node that runs a singleton lists it. */
  #listedHere(place: Place): boolean {
    if (!place.here) return false;
    return !runsOnce(place) || this.#local.state(place.server.name) !== null;
  }

  /** The instances whose catalogs a client sees while this node cannot start the server, or has no login for it. */
  #readInstead(place: Place, client: ClientProfile): readonly RemoteInstance[] {
    const local = this.#local;
    if (place.here && local.state(place.server.name, client) === 'auth_required') return place.otherInstances;
    return fallbackInstances(place, local).slice(0, 1);
  }

  #instanceFor(place: Place, client: ClientProfile): RemoteInstance | null {
    const peer = this.calls.peerOf(place, client);
    const served = place.otherInstances.find(({ node }) => node.peer === peer);
    return served ?? this.instanceOf(place.server.name);
  }
}
