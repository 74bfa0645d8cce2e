import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { UpstreamEvents, Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ListKind, ServerCatalog } from '../model/server-catalog.ts';
import type { ServerState, ServerStatus } from '../model/server-state.ts';
import { ClusterCalls } from './cluster-calls.ts';
import type { ClusterDeps } from './cluster-deps.ts';
import { clientText, headOf } from './frames/frame.ts';
import type { OwnNode } from './lease/own-node.ts';
import type { Advertisements } from './nodes/advertisements.ts';
import { ForeignCatalogs, type ShownCatalogs } from './nodes/foreign-catalogs.ts';
import {
  allRestarted,
  instancesInstead,
  instanceToRead,
  type Restart,
  runningElsewhere,
  statusElsewhere,
} from './nodes/instances.ts';
import type { KnownServers } from './nodes/known-servers.ts';
import { ListsElsewhere } from './nodes/lists-elsewhere.ts';
import { whyLost } from './nodes/lost-instances.ts';
import { type Place, type RemoteInstance, runsOnce } from './nodes/routing-table.ts';
import type { Users } from './nodes/users.ts';
import type { OwnServers } from './ownership/own-servers.ts';
import { affinity } from './ownership/placement.ts';
import type { Side, SideMessages } from './streams/side-messages.ts';

/**
 * The upstreams of the whole cluster: catalogs of other nodes' servers come from there; calls go to the node that serves the
 * client.
 */
export class ClusterUpstreams implements Upstreams, ShownCatalogs {
  readonly calls: ClusterCalls;
  readonly #deps: ClusterDeps;
  readonly #events: UpstreamEvents;
  readonly #known: KnownServers;
  readonly #servers: OwnServers;
  readonly #advertisements: Advertisements;
  readonly #messages: SideMessages;
  readonly #catalogs: ForeignCatalogs;
  readonly #lists: ListsElsewhere;

  /** `events` reaches the clients of all nodes. */
  constructor(
    deps: ClusterDeps,
    events: UpstreamEvents,
    self: OwnNode,
    known: KnownServers,
    servers: OwnServers,
    advertisements: Advertisements,
    messages: SideMessages,
    users: Users,
  ) {
    this.#deps = deps;
    this.#events = events;
    this.#known = known;
    this.#servers = servers;
    this.#advertisements = advertisements;
    this.#messages = messages;
    this.#catalogs = new ForeignCatalogs(deps, users, this);
    this.#lists = new ListsElsewhere(deps, advertisements, this.#catalogs, this);
    this.calls = new ClusterCalls(deps, events, self, known, servers, this.#catalogs, this);
  }

  servers(): readonly Server[] {
    return this.#known.routingTable.servers;
  }

  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    return this.calls.call(server, request, exchange);
  }

  notify(server: string, notification: Message, client: ClientProfile): void {
    const place = this.#place(server);
    const peer = place === undefined ? null : this.calls.peerOf(place, client);
    if (peer === null) this.#deps.local.notify(server, notification, client);
    else {
      const side: Side = { kind: 'notify', server, client: clientText(client), message: headOf(notification) };
      this.#messages.tell(peer, side, notification);
    }
  }

  knownCatalog(server: string, client: ClientProfile, orOthers = false): ServerCatalog | null {
    const place = this.#place(server);
    if (place === undefined) return this.#deps.local.knownCatalog(server, client, orOthers);
    if (!this.#listedHere(place)) return this.#lists.own.known(place, client) ?? this.#catalogs.known(server, client);
    const here = this.#deps.local.knownCatalog(server, client, orOthers);
    const known = here?.own === true ? here : (this.#lists.own.known(place, client) ?? here);
    const [instead] = known === null ? instancesInstead(place, this.#deps.local) : [];
    return instead === undefined ? known : this.#catalogs.knownAt(instead, client);
  }

  async catalog(
    server: string,
    client: ClientProfile,
    waitMs: number,
    amongOthers = false,
  ): Promise<ServerCatalog | null> {
    const { local } = this.#deps;
    const catalogs = this.#catalogs;
    const place = this.#place(server);
    const elsewhere = place === undefined ? null : this.#lists.own.known(place, client);
    if (elsewhere !== null) return elsewhere;
    if (place === undefined || this.#listedHere(place)) {
      const own = await local.catalog(server, client, waitMs, amongOthers);
      const [instead] = own !== null || place === undefined ? [] : instancesInstead(place, local);
      return instead === undefined ? own : catalogs.get(instead, client, waitMs, amongOthers);
    }
    const instance = this.#instanceFor(place, client);
    if (instance !== null) return catalogs.get(instance, client, waitMs, amongOthers);
    return catalogs.known(server, client);
  }

  sessionKey(server: string, client: ClientProfile): string | null {
    const place = this.#place(server);
    const peer = place === undefined ? null : this.calls.peerOf(place, client);
    if (place === undefined || (peer === null && place.here)) return this.#deps.local.sessionKey(server, client);
    const catalogs = this.#catalogs;
    const shared = affinity(place, client, this) === null ? catalogs.sharedKey(server, client) : null;
    return catalogs.key(server, client) ?? shared ?? this.#lists.own.keyOf(place!, client);
  }

  ownsConnection(server: string, client: ClientProfile): boolean {
    const place = this.#place(server);
    const peer = place === undefined ? null : this.calls.peerOf(place, client);
    if (peer === null) return this.#deps.local.ownsConnection(server, client);
    return this.#catalogs.owns(server, client);
  }

  /** A client's calls to its process go to one node, and so do its lists, also before its first call. */
  async ownsConnectionElsewhere(server: string, client: ClientProfile): Promise<boolean> {
    const place = this.#place(server);
    const instance = place === undefined ? null : await this.calls.ownerElsewhere(place, client);
    return instance !== null && this.#catalogs.ownedThere(instance, client);
  }

  async foundMeanwhile(server: string, exchange: Exchange, list: ListKind, name: string): Promise<boolean> {
    const { local } = this.#deps;
    const place = this.#place(server);
    if (place === undefined) return false;
    const listed = place.here && (await local.foundMeanwhile?.(server, exchange, list, name)) === true;
    const known = listed ? this.knownCatalog(server, exchange.client)?.lists[list].items : null;
    if (place.otherInstances.length === 0 || known?.some(({ key }) => key === name) === true) return listed;
    return this.#lists.foundElsewhere(place, exchange, list, name);
  }

  status(server: string): ServerStatus | null {
    const place = this.#place(server);
    if (place === undefined || this.#listedHere(place)) return this.#deps.local.status(server);
    return statusElsewhere(place, this.calls.reached) ?? this.#deps.local.status(server);
  }

  state(server: string): ServerState | null {
    const place = this.#place(server);
    const elsewhere =
      place === undefined || this.#listedHere(place) ? null : statusElsewhere(place, this.calls.reached);
    return elsewhere === null ? this.#deps.local.state(server) : elsewhere.state;
  }

  statuses(): readonly ServerStatus[] {
    const all = new Map(this.#deps.local.statuses().map((status) => [status.name, status]));
    for (const [name, place] of this.#known.routingTable.places) {
      const status = this.#listedHere(place) ? null : statusElsewhere(place, this.calls.reached);
      if (status !== null) all.set(name, status);
    }
    return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Restarts every instance, also if one fails; afterwards the status here is the one that the nodes report. */
  async restart(server: string): Promise<void> {
    const { local } = this.#deps;
    const place = this.#place(server);
    if (place === undefined) return local.restart(server);
    if (place.lost !== null) {
      throw new GatewayError('NOT_SENT', `${server}: ${whyLost(place.lost, this.calls.reached)}`, { server });
    }
    const others = runningElsewhere(place);
    const restarts: Restart[] = others.map(({ node }) => ({
      at: `node ${node.id}`,
      done: this.#messages.restart(node.peer, server),
    }));
    if (this.#listedHere(place) || restarts.length === 0) {
      restarts.push({ at: 'this node', done: local.restart(server) });
    }
    await allRestarted(server, restarts);
    await this.#advertisements.readNow(others.map(({ node }) => node.peer));
  }

  releaseSession(sessionId: string): void {
    this.released(sessionId);
    for (const peer of this.calls.forgetSession(sessionId)) this.#messages.tell(peer, { kind: 'release', sessionId });
    this.#catalogs.forgetSession(sessionId);
  }

  released(sessionId: string): void {
    this.#deps.local.releaseSession(sessionId);
    this.#servers.owned.claims.releaseSession(sessionId);
  }

  /** The instance whose catalog clients see. */
  instanceOf(server: string): RemoteInstance | null {
    const place = this.#place(server);
    if (place === undefined) return null;
    return this.#listedHere(place) ? null : instanceToRead(place);
  }

  /** Clients that the node served lose what was set up there. */
  nodeSilent(peer: string): void {
    const { places } = this.#known.routingTable;
    const had = ({ otherInstances }: Place): boolean => otherInstances.some(({ node }) => node.peer === peer);
    if (!places.values().some(had)) return;
    this.#events.nodeSilent?.((server, client) => {
      const place = places.get(server);
      if (place === undefined || !had(place)) return false;
      const at = this.calls.peerOf(place, client);
      return at === null ? !place.here : at === peer;
    });
  }

  refresh(): void {
    this.#lists.look(this.#known.routingTable.places);
    this.#catalogs.refresh((server) => this.#known.isLost(server));
  }

  close(): void {
    this.#catalogs.close();
    this.calls.close();
  }

  #place(server: string): Place | undefined {
    return this.#known.routingTable.places.get(server);
  }

  /** A singleton is listed where it runs. */
  #listedHere(place: Place): boolean {
    if (!place.here) return false;
    return !runsOnce(place) || this.#deps.local.state(place.server.name) !== null;
  }

  #instanceFor(place: Place, client: ClientProfile): RemoteInstance | null {
    const peer = this.calls.peerOf(place, client);
    const served = place.otherInstances.find(({ node }) => node.peer === peer);
    return served ?? this.instanceOf(place.server.name);
  }
}
