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

export class KnownServers {
  readonly #deps: Pick<ClusterDeps, 'logger' | 'events'>;
  readonly #own: OwnAdvertisement;
  readonly #nodes: Pick<Nodes, 'self' | 'others' | 'get'>;
  readonly #advertisements: Pick<Advertisements, 'of'>;
  readonly #lost: LostInstances;
  /** The routing table. */
  readonly #places = new Map<string, Place>();
  readonly #conflicts = new Map<string, Conflict>();
  #servers: readonly Server[] = [];
  /** By server, then by peer: where other nodes have it. */
  readonly #instances = new Map<string, Map<string, RemoteInstance>>();
  /** Names of servers whose places are looked up at the next update. */
  readonly #changed = new Set<string>();
  /** Those of them that another node advertises otherwise, by peer. */
  readonly #changedAt = new Map<string, Set<string>>();
  /** Names of the nodes that had each server that is expected. */
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

  /** In order of their names. */
  get servers(): readonly Server[] {
    return this.#servers;
  }

  /** The other nodes. */
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

  /** Names of the other nodes that had it when they were last heard. */
  holders(server: string): readonly string[] {
    const gone = this.#lost.of(server).filter(({ left }) => !left);
    const there = this.place(server)?.otherInstances ?? [];
    return [...new Set([...there.map(({ node }) => node.id), ...gone.map(({ node }) => node)])].sort();
  }

  readyElsewhere(server: string): boolean {
    return this.place(server)?.otherInstances.some(({ node }) => node.state === 'ready') === true;
  }

  /** Servers that only other nodes have. */
  server(name: string): { readonly server: Server; readonly nodes: readonly string[] } | null {
    const place = this.place(name);
    if (place === undefined || place.here || place.otherInstances.length === 0) return null;
    return { server: place.server, nodes: place.otherInstances.map(({ node }) => node.id).sort() };
  }

  /** The nodes with another definition under its name, or a name that clients would confuse. */
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

  /** All its nodes are gone and may return. */
  isLost(server: string): boolean {
    return (this.place(server)?.lost ?? null) !== null;
  }

  /** They came, went or changed, here or at the other node. */
  changed(servers: Iterable<string>, peer: string | null = null): void {
    let there = peer === null ? null : this.#changedAt.get(peer);
    if (peer !== null && there === undefined) this.#changedAt.set(peer, (there = new Set()));
    for (const server of servers) {
      this.#changed.add(server);
      there?.add(server);
    }
  }

  /**
   * Brings the routing table up to date where it has changed, and reports conflicts and new instances. `servers`: what was looked
   * up again. `anew`: there are other servers than before.
   */
  update(): { readonly servers: ReadonlySet<string>; readonly anew: boolean } {
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
    let anew = false;
    for (const name of servers) {
      const before = this.#places.get(name);
      const place = this.#locate(name, self);
      this.#changed.delete(name);
      if (place === null) this.#places.delete(name);
      else this.#places.set(name, place);
      if (place !== null && hasMore(place, before)) gained.add(name);
      anew ||= before?.server !== place?.server;
    }
    if (anew) {
      const sorted = [...this.#places].sort(([one], [other]) => (one < other ? -1 : 1));
      this.#servers = sorted.map(([, { server }]) => server);
    }
    if (gained.size > 0) this.#deps.events.instancesGained?.(gained);
    return { servers, anew };
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
    this.#tellConflict(name, conflict);
    const before = this.#places.get(name)?.server;
    // Clients need no notification of an equal one.
    const isEqual = place !== null && !place.here && isDeepStrictEqual(before, place.server);
    return isEqual ? { ...place, server: before! } : place;
  }

  /** A server that a returned node no longer has is dropped for its lost instances too. */
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

  /** By the table before. */
  #hadIt(name: string, self: string): ReadonlySet<string> {
    const sides = this.#conflicts.get(name)?.sides.flat() ?? [];
    const others = this.place(name)?.otherInstances.map(({ node }) => node.id) ?? [];
    return new Set([...sides, ...others, ...(this.#ownNames.has(name) ? [self] : [])]);
  }

  #tellConflict(name: string, conflict: Conflict | null): void {
    const before = this.#conflicts.get(name);
    if (conflict === null) this.#conflicts.delete(name);
    else if (!isDeepStrictEqual(before, conflict)) {
      this.#conflicts.set(name, conflict);
      const [used, ...others] = conflict.sides;
      this.#deps.logger.error('definitions_conflict', { server: name, used, others });
    }
  }
}

/** An instance that was not there before; most places have the same nodes in the same order. */
function hasMore({ here, otherInstances: now }: Place, was: Place | undefined): boolean {
  const before = was?.otherInstances ?? [];
  if (here && was?.here !== true) return true;
  if (now.every(({ node }, i) => node.peer === before[i]?.node.peer)) return false;
  const peers = new Set(before.map(({ node }) => node.peer));
  return now.some(({ node }) => !peers.has(node.peer));
}
