import { foldedName } from '../../model/names.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LostInstances } from './lost-instances.ts';
import type { NodeView } from './node-state.ts';
import type { AdvertisedServer, OwnAdvertisement } from './own-advertisement.ts';
import { digestsOf, type RoutingTable, routingTable, sameServers } from './routing-table.ts';

export interface KnownServersDeps {
  /** What this node says of itself. */
  readonly self: () => NodeView;
  readonly logger: Logger;
  readonly own: OwnAdvertisement;
  /** null while nothing was read of the node. */
  readonly others: () => Iterable<readonly [NodeView, readonly AdvertisedServer[] | null]>;
  readonly lostInstances: LostInstances;
  /** These servers have homes that they had not. */
  readonly instancesGained: (servers: ReadonlySet<string>) => void;
}

/** Every server of the cluster and where its calls can go: made anew whenever this node or another offers something else. */
export class KnownServers {
  readonly #deps: KnownServersDeps;
  #routingTable: RoutingTable = { places: new Map(), servers: [], conflicts: [] };
  #conflicts = '';
  /** Who has each server, by the operator's names; or had it last. */
  #holders: ReadonlyMap<string, Set<string>> = new Map();

  constructor(deps: KnownServersDeps) {
    this.#deps = deps;
  }

  get routingTable(): RoutingTable {
    return this.#routingTable;
  }

  /** The other nodes that calls of the server may go to. */
  instances(server: string): readonly string[] {
    return (this.#routingTable.places.get(server)?.otherInstances ?? []).map(({ node }) => node.peer);
  }

  /** Whether another node may begin what only one may own of the server. */
  readyElsewhere(server: string): boolean {
    return this.#routingTable.places.get(server)?.otherInstances.some(({ node }) => node.state === 'ready') === true;
  }

  /** The server of that name, where only other nodes have it. */
  server(name: string): { readonly server: Server; readonly nodes: readonly string[] } | null {
    const place = this.#routingTable.places.get(name);
    if (place === undefined || place.here || place.otherInstances.length === 0) return null;
    return { server: place.server, nodes: place.otherInstances.map(({ node }) => node.id).sort() };
  }

  /** The nodes that mean something else by its name, or by one that clients would take for it. */
  against(server: Server): readonly string[] {
    const digests = this.#deps.own.digests(server);
    const differs = (offered: AdvertisedServer): boolean => {
      const { name } = offered.definition;
      if (foldedName(name) !== foldedName(server.name)) return false;
      return name !== server.name || !digestsOf(offered).some((digest) => digests.includes(digest));
    };
    return [...this.#deps.others()].flatMap(([{ id }, offered]) => (offered?.some(differs) === true ? id : [])).sort();
  }

  /** Whether all nodes that had the server are gone, and may be back. */
  isLost(server: string): boolean {
    return (this.#routingTable.places.get(server)?.lost ?? null) !== null;
  }

  /**
   * Makes the directory anew, and tells what conflicts and what has new homes. True where the set of servers is another one than
   * before, wherever they are.
   */
  rebuild(): boolean {
    const { own, others, self, lostInstances } = this.#deps;
    const view = self();
    const servers = new Map<string, { server: Server; digests: readonly string[]; process: boolean }>();
    for (const server of own.servers) {
      servers.set(server.name, { server, digests: own.digests(server), process: isOwnProcess(server) });
    }
    const there: [NodeView, readonly AdvertisedServer[]][] = [];
    for (const [other, offered] of others()) {
      if (offered === null) {
        lostInstances.awaitAnew(other);
        continue;
      }
      there.push([other, offered]);
      lostInstances.returned(other);
    }
    lostInstances.returned(view);
    this.#dropLost(view, there);
    const before = this.#routingTable;
    this.#routingTable = routingTable({ id: view.id, servers }, there, lostInstances);
    this.#tellConflicts();
    this.#tellGained(before);
    if (!sameServers(before, this.#routingTable)) return true;
    this.#routingTable = { ...this.#routingTable, servers: before.servers };
    return false;
  }

  /** What a node that is there had, and none that is there has any more, is dropped: for the lost ones too. */
  #dropLost(self: NodeView, there: readonly (readonly [NodeView, readonly AdvertisedServer[]])[]): void {
    const holders = new Map<string, Set<string>>();
    const holds = (name: string, id: string): void => {
      holders.set(name, (holders.get(name) ?? new Set()).add(id));
    };
    for (const { name } of this.#deps.own.servers) holds(name, self.id);
    for (const [{ id }, offered] of there) for (const { definition } of offered) holds(definition.name, id);
    const present = new Set([self.id, ...there.map(([{ id }]) => id)]);
    const expected = new Set([...this.#deps.lostInstances].map(({ offered }) => offered.definition.name));
    const dropped = new Set<string>();
    for (const [name, ids] of this.#holders) {
      if (holders.has(name) || !expected.has(name)) continue;
      if (present.isDisjointFrom(ids)) holders.set(name, ids);
      else dropped.add(name);
    }
    this.#holders = holders;
    this.#deps.lostInstances.drop(dropped);
  }

  #tellGained(before: RoutingTable): void {
    const gained = new Set<string>();
    for (const [name, { here, otherInstances }] of this.#routingTable.places) {
      const was = before.places.get(name);
      const had = (peer: string): boolean => was?.otherInstances.some(({ node }) => node.peer === peer) === true;
      if ((here && was?.here !== true) || otherInstances.some(({ node }) => !had(node.peer))) gained.add(name);
    }
    if (gained.size > 0) this.#deps.instancesGained(gained);
  }

  #tellConflicts(): void {
    const { conflicts } = this.#routingTable;
    const text = JSON.stringify(conflicts);
    if (text === this.#conflicts) return;
    this.#conflicts = text;
    for (const { server, sides } of conflicts) {
      this.#deps.logger.error('definitions_conflict', { server, used: sides[0], others: sides.slice(1) });
    }
  }
}
