import { isDeepStrictEqual } from 'node:util';
import { foldedName } from '../../model/names.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { AdvertisedServer } from './advertised.ts';
import type { Advertisements } from './advertisements.ts';
import type { LostInstances } from './lost-instances.ts';
import type { NodeView } from './node-state.ts';
import type { Nodes } from './nodes.ts';
import type { OwnAdvertisement } from './own-advertisement.ts';
import { type Conflict, located, type Place, type RemoteInstance } from './routing-table.ts';

export interface NodeReport extends NodeView {
  readonly here: boolean;
  readonly servers: readonly string[];
}

/** The routing table: the servers of all nodes, and where each of them is. */
export class KnownServers {
  readonly #deps: Pick<ClusterDeps, 'logger' | 'events'>;
  readonly #own: OwnAdvertisement;
  readonly #nodes: Pick<Nodes, 'self' | 'others' | 'get'>;
  readonly #advertisements: Pick<Advertisements, 'of'>;
  readonly #lost: LostInstances;
  readonly #places = new Map<string, Place>();
  readonly #conflicts = new Map<string, Conflict>();
  #servers: readonly Server[] = [];
  /** Instances at other nodes, by server, then by peer. */
  readonly #instances = new Map<string, Map<string, RemoteInstance>>();
  /** Names of servers that the next update locates again. */
  readonly #changed = new Set<string>();
  /** Of these, the servers that another node added, changed or removed, by peer. */
  readonly #changedAt = new Map<string, Set<string>>();
  /** Names of the nodes that had each lost server. */
  #holders: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  /** Names of this node's servers in the routing table. */
  readonly #ownNames = new Set<string>();

  constructor(
    deps: Pick<ClusterDeps, 'logger' | 'events'>,
    own: OwnAdvertisement,
    nodes: Pick<Nodes, 'self' | 'others' | 'get'>,
    advertisements: Pick<Advertisements, 'of'>,
    lost: LostInstances,
  ) {
    this.#deps = deps;
    this.#own = own;
    this.#nodes = nodes;
    this.#advertisements = advertisements;
    this.#lost = lost;
  }

  /** Sorted by name. */
  get servers(): readonly Server[] {
    return this.#servers;
  }

  others(): Iterable<NodeView> {
    return this.#nodes.others();
  }

  nodes(): readonly NodeReport[] {
    const names = (servers: Iterable<string>): string[] => [...servers].sort();
    const own = names(Array.from(this.#own.servers, ({ name }) => name));
    const others = Array.from(this.#nodes.others(), (node) => ({
      ...node,
      here: false,
      servers: names(this.#advertisements.of(node.peer)?.keys() ?? []),
    }));
    return [{ ...this.#nodes.self, here: true, servers: own }, ...others].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  place(server: string): Place | undefined {
    return this.#places.get(server);
  }

  places(): MapIterator<Place> {
    return this.#places.values();
  }

  get conflicts(): readonly Conflict[] {
    return [...this.#conflicts.values()].sort((one, other) => (one.server < other.server ? -1 : 1));
  }

  instances(server: string): readonly string[] {
    return (this.place(server)?.otherInstances ?? []).map(({ node }) => node.peer);
  }

  /** Names of the other nodes that have the server, or had it when they fell silent. */
  holders(server: string): readonly string[] {
    const gone = this.#lost.of(server).filter(({ left }) => !left);
    const there = this.place(server)?.otherInstances ?? [];
    return [...new Set([...there.map(({ node }) => node.id), ...gone.map(({ node }) => node)])].sort();
  }

  readyElsewhere(server: string): boolean {
    return this.place(server)?.otherInstances.some(({ node }) => node.state === 'ready') === true;
  }

  /** Whether a ready node advertises a state of the server, which of a singleton only its owner has. */
  runsElsewhere(server: string): boolean {
    const there = this.place(server)?.otherInstances ?? [];
    return there.some(({ node, advertised }) => node.state === 'ready' && advertised.status !== null);
  }

  /** The server and the names of its nodes, if only other nodes have it. */
  server(name: string): { readonly server: Server; readonly nodes: readonly string[] } | null {
    const place = this.place(name);
    if (place === undefined || place.here || place.otherInstances.length === 0) return null;
    return { server: place.server, nodes: place.otherInstances.map(({ node }) => node.id).sort() };
  }

  /** Names of the nodes with another definition under this name, or under a name that clients would confuse with it. */
  against(server: Server): readonly string[] {
    const digests = this.#own.digests(server);
    const differs = (advertised: AdvertisedServer): boolean => {
      const { name } = advertised.definition;
      if (foldedName(name) !== foldedName(server.name)) return false;
      return name !== server.name || !advertised.digests.some((digest) => digests.includes(digest));
    };
    const has = ({ peer }: NodeView): boolean => this.#advertisements.of(peer)?.values().some(differs) === true;
    return [...this.#nodes.others()].flatMap((node) => (has(node) ? node.id : [])).sort();
  }

  /** Whether all nodes with the server are lost and may return. */
  isLost(server: string): boolean {
    return (this.place(server)?.lost ?? null) !== null;
  }

  /** Servers were added, removed or changed, at this node or at `peer`. */
  changed(servers: Iterable<string>, peer: string | null = null): void {
    let there = peer === null ? null : this.#changedAt.get(peer);
    if (peer !== null && there === undefined) this.#changedAt.set(peer, (there = new Set()));
    for (const server of servers) {
      this.#changed.add(server);
      there?.add(server);
    }
  }

  /**
   * Updates the routing table for changed servers, and reports conflicts and new instances. `servers`: the names that were
   * located again. `definitionsChanged`: a server was added, removed or redefined.
   */
  update(): { readonly servers: ReadonlySet<string>; readonly definitionsChanged: boolean } {
    const self = this.#nodes.self;
    const present = new Set([self.id]);
    for (const node of this.#nodes.others()) {
      if (this.#advertisements.of(node.peer) === null) this.#lost.awaitAgain(node);
      else {
        present.add(node.id);
        this.#lost.returned(node);
      }
    }
    this.#lost.returned(self);
    for (const [peer, servers] of this.#changedAt) this.#instancesAt(peer, servers);
    this.#changedAt.clear();
    this.#dropLost(self, present);
    this.changed(this.#lost.takeChanged());
    const servers = new Set(this.#changed);
    const gained = new Set<string>();
    let definitionsChanged = false;
    for (const name of servers) {
      const before = this.#places.get(name);
      const place = this.#locate(name, self);
      this.#changed.delete(name);
      if (place === null) this.#places.delete(name);
      else this.#places.set(name, place);
      if (place !== null && hasMore(place, before)) gained.add(name);
      definitionsChanged ||= before?.server !== place?.server;
    }
    if (definitionsChanged) {
      const sorted = [...this.#places].sort(([one], [other]) => (one < other ? -1 : 1));
      this.#servers = sorted.map(([, { server }]) => server);
    }
    if (gained.size > 0) this.#deps.events.instancesGained?.(gained);
    return { servers, definitionsChanged };
  }

  #instancesAt(peer: string, servers: Iterable<string>): void {
    const node = this.#nodes.get(peer);
    const there = node && this.#advertisements.of(peer);
    for (const name of servers) {
      const advertised = there?.get(name);
      let instances = this.#instances.get(name);
      if (node === null || advertised === undefined) instances?.delete(peer);
      else {
        if (instances === undefined) this.#instances.set(name, (instances = new Map()));
        instances.set(peer, { node, advertised });
      }
      if (instances?.size === 0) this.#instances.delete(name);
    }
  }

  #locate(name: string, self: NodeView): Place | null {
    const others = this.#instances.get(name)?.values() ?? [];
    const server = this.#own.server(name);
    const own = server && { server, digests: this.#own.digests(server), process: isOwnProcess(server) };
    if (own === undefined) this.#ownNames.delete(name);
    else this.#ownNames.add(name);
    const { place, conflict } = located(name, self.id, own, others, () => this.#lost.of(name));
    this.#reportConflict(name, conflict);
    const before = this.#places.get(name)?.server;
    // Keep the object of an equal definition: clients need no notification of it.
    const isEqual = place !== null && !place.here && isDeepStrictEqual(before, place.server);
    return isEqual ? { ...place, server: before! } : place;
  }

  /** If a returned node no longer has a lost server, drops the server's other lost instances too. */
  #dropLost(self: NodeView, present: ReadonlySet<string>): void {
    const holders = new Map<string, ReadonlySet<string>>();
    const dropped = new Set<string>();
    for (const name of this.#lost.servers()) {
      if (this.#own.server(name) !== undefined || this.#instances.has(name)) continue;
      const ids = this.#holders.get(name) ?? this.#hadIt(name, self.id);
      if (present.isDisjointFrom(ids)) holders.set(name, ids);
      else dropped.add(name);
    }
    this.#holders = holders;
    this.#lost.drop(dropped);
  }

  /** Names of the nodes that had the server, by the table before this update. */
  #hadIt(name: string, self: string): ReadonlySet<string> {
    const sides = this.#conflicts.get(name)?.sides.flat() ?? [];
    const others = this.place(name)?.otherInstances.map(({ node }) => node.id) ?? [];
    return new Set([...sides, ...others, ...(this.#ownNames.has(name) ? [self] : [])]);
  }

  #reportConflict(name: string, conflict: Conflict | null): void {
    const before = this.#conflicts.get(name);
    if (conflict === null) this.#conflicts.delete(name);
    else if (!isDeepStrictEqual(before, conflict)) {
      this.#conflicts.set(name, conflict);
      const [used, ...others] = conflict.sides;
      this.#deps.logger.error('definitions_conflict', { server: name, used, others });
    }
  }
}

/** Whether there is a new instance. Most places have the same nodes in the same order as before. */
function hasMore({ here, otherInstances: now }: Place, was: Place | undefined): boolean {
  const before = was?.otherInstances ?? [];
  if (here && was?.here !== true) return true;
  if (now.every(({ node }, i) => node.peer === before[i]?.node.peer)) return false;
  const peers = new Set(before.map(({ node }) => node.peer));
  return now.some(({ node }) => !peers.has(node.peer));
}
