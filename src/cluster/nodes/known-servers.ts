import { foldedName } from '../../model/names.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { AdvertisedServer } from './advertised.ts';
import type { Advertisements } from './advertisements.ts';
import type { LostInstances } from './lost-instances.ts';
import type { NodeView } from './node-state.ts';
import type { Nodes } from './nodes.ts';
import type { OwnAdvertisement } from './own-advertisement.ts';
import { type Place, type RemoteInstance, type RoutingTable, routingTable, sameServers } from './routing-table.ts';

export interface NodeReport extends NodeView {
  readonly here: boolean;
  readonly servers: readonly string[];
}

export class KnownServers {
  readonly #deps: Pick<ClusterDeps, 'logger' | 'events'>;
  readonly #own: OwnAdvertisement;
  readonly #nodes: Pick<Nodes, 'self' | 'others'>;
  readonly #advertisements: Pick<Advertisements, 'of'>;
  readonly #lost: LostInstances;
  routingTable: RoutingTable = { places: new Map(), servers: [], conflicts: [] };
  #conflicts = '';
  /** Names of the nodes that had each server that is expected. */
  #holders: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  /** Names of this node's servers in the routing table. */
  #ownNames: ReadonlySet<string> = new Set();

  constructor(
    deps: Pick<ClusterDeps, 'logger' | 'events'>,
    own: OwnAdvertisement,
    nodes: Pick<Nodes, 'self' | 'others'>,
    advertisements: Pick<Advertisements, 'of'>,
    lost: LostInstances,
  ) {
    this.#deps = deps;
    this.#own = own;
    this.#nodes = nodes;
    this.#advertisements = advertisements;
    this.#lost = lost;
  }

  /** The other nodes. */
  others(): Iterable<NodeView> {
    return this.#nodes.others();
  }

  nodes(): readonly NodeReport[] {
    const names = (servers: Iterable<string>): string[] => [...servers].sort();
    const own = names(Array.from(this.#own.servers, ({ name }) => name));
    const others = Array.from(this.#others(), ([node, advertised]) => ({
      ...node,
      here: false,
      servers: names((advertised ?? []).map(({ definition }) => definition.name)),
    }));
    return [{ ...this.#nodes.self, here: true, servers: own }, ...others].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  place(server: string): Place | undefined {
    return this.routingTable.places.get(server);
  }

  instances(server: string): readonly string[] {
    return (this.place(server)?.otherInstances ?? []).map(({ node }) => node.peer);
  }

  /** Names of the other nodes that had it when they were last heard. */
  holders(server: string): readonly string[] {
    const gone = [...this.#lost].filter(({ advertised, left }) => advertised.definition.name === server && !left);
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
    return [...this.#others()].flatMap(([{ id }, advertised]) => (advertised?.some(differs) === true ? id : [])).sort();
  }

  /** All its nodes are gone and may return. */
  isLost(server: string): boolean {
    return (this.place(server)?.lost ?? null) !== null;
  }

  /** Builds the routing table and reports conflicts and new instances. True if the set of servers changed. */
  rebuild(): boolean {
    const own = this.#own;
    const lost = this.#lost;
    const view = this.#nodes.self;
    const servers = new Map<string, { server: Server; digests: readonly string[]; process: boolean }>();
    for (const server of own.servers) {
      servers.set(server.name, { server, digests: own.digests(server), process: isOwnProcess(server) });
    }
    const there: [NodeView, readonly AdvertisedServer[]][] = [];
    for (const [other, advertised] of this.#others()) {
      if (advertised === null) {
        lost.awaitAgain(other);
        continue;
      }
      there.push([other, advertised]);
      lost.returned(other);
    }
    lost.returned(view);
    this.#dropLost(view, there);
    this.#ownNames = new Set(servers.keys());
    const before = this.routingTable;
    this.routingTable = routingTable({ id: view.id, servers }, there, lost);
    this.#tellConflicts();
    this.#tellGained(before);
    if (!sameServers(before, this.routingTable)) return true;
    this.routingTable = { ...this.routingTable, servers: before.servers };
    return false;
  }

  *#others(): Iterable<readonly [NodeView, readonly AdvertisedServer[] | null]> {
    for (const node of this.#nodes.others()) yield [node, this.#advertisements.of(node.peer)];
  }

  /** A server that a returned node no longer has is dropped for its lost instances too. */
  #dropLost(self: NodeView, there: readonly (readonly [NodeView, readonly AdvertisedServer[]])[]): void {
    const holders = new Map<string, ReadonlySet<string>>();
    const expected = new Set([...this.#lost].map(({ advertised }) => advertised.definition.name));
    if (expected.size > 0) {
      for (const { name } of this.#own.servers) expected.delete(name);
      for (const [, advertised] of there) for (const { definition } of advertised) expected.delete(definition.name);
    }
    const present = new Set([self.id, ...there.map(([{ id }]) => id)]);
    const dropped = new Set<string>();
    for (const name of expected) {
      const ids = this.#holders.get(name) ?? this.#hadIt(name, self.id);
      if (present.isDisjointFrom(ids)) holders.set(name, ids);
      else dropped.add(name);
    }
    this.#holders = holders;
    this.#lost.drop(dropped);
  }

  /** By the table before. */
  #hadIt(name: string, self: string): ReadonlySet<string> {
    const { places, conflicts } = this.routingTable;
    const sides = conflicts.find(({ server }) => server === name)?.sides.flat() ?? [];
    const others = places.get(name)?.otherInstances.map(({ node }) => node.id) ?? [];
    return new Set([...sides, ...others, ...(this.#ownNames.has(name) ? [self] : [])]);
  }

  #tellGained(before: RoutingTable): void {
    const gained = new Set<string>();
    for (const [name, { here, otherInstances }] of this.routingTable.places) {
      const was = before.places.get(name);
      if ((here && was?.here !== true) || hasMore(otherInstances, was?.otherInstances ?? [])) gained.add(name);
    }
    if (gained.size > 0) this.#deps.events.instancesGained?.(gained);
  }

  #tellConflicts(): void {
    const { conflicts } = this.routingTable;
    const text = JSON.stringify(conflicts);
    if (text === this.#conflicts) return;
    this.#conflicts = text;
    for (const { server, sides } of conflicts) {
      this.#deps.logger.error('definitions_conflict', { server, used: sides[0], others: sides.slice(1) });
    }
  }
}

/** An instance that was not there before; most tables have the same nodes in the same order. */
function hasMore(now: readonly RemoteInstance[], before: readonly RemoteInstance[]): boolean {
  const peer = (all: readonly RemoteInstance[], i: number) => all[i]?.node.peer;
  return now.some(({ node }, i) => node.peer !== peer(before, i) && !before.some((was) => was.node.peer === node.peer));
}
