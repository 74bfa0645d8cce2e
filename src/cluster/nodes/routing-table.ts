import { isDeepStrictEqual } from 'node:util';
import type { Server } from '../../model/server.ts';
import type { AdvertisedServer } from './advertised.ts';
import { foreignServer } from './foreign-server.ts';
import type { LostInstance } from './lost-instances.ts';
import type { NodeView } from './node-state.ts';

export interface RemoteInstance {
  readonly node: NodeView;
  readonly advertised: AdvertisedServer;
}

interface Conflict {
  readonly server: string;
  /** Nodes by definition; calls go to the first. */
  readonly sides: readonly (readonly string[])[];
}

export interface Place {
  readonly server: Server;
  /** Each of its connections is a process. */
  readonly process: boolean;
  /** This node has an instance with the definition that calls go to. */
  readonly here: boolean;
  readonly otherInstances: readonly RemoteInstance[];
  /** Null unless all its instances are gone. */
  readonly lost: LostInstance | null;
}

/** Only processes count: what is behind a URL exists once in any case. */
export function runsOnce({ server, process }: Pick<Place, 'server' | 'process'>): boolean {
  return server.singleton === true && process;
}

interface OwnPart {
  readonly id: string;
  /** With a digest per accepted key. */
  readonly servers: ReadonlyMap<
    string,
    { readonly server: Server; readonly digests: readonly string[]; readonly process: boolean }
  >;
}

export interface RoutingTable {
  readonly places: ReadonlyMap<string, Place>;
  readonly servers: readonly Server[];
  readonly conflicts: readonly Conflict[];
}

interface Side<Instance> {
  readonly digests: Set<string>;
  readonly instances: Instance[];
  own: boolean;
  nodes: string[];
}

/**
 * All servers of the cluster. Equal definitions are one server with several instances; of different definitions under one name,
 * calls go to the one that most nodes have, on a tie to that of the lowest node id. Lost instances count likewise. Pure: nodes
 * with equal input agree.
 */
export function routingTable(
  own: OwnPart,
  others: Iterable<readonly [NodeView, readonly AdvertisedServer[]]>,
  lost: Iterable<LostInstance> = [],
): RoutingTable {
  const known = new Sides<RemoteInstance>();
  // Used only if no other node has the server.
  const misconfigured: string[] = [];
  for (const [name, { server, digests }] of own.servers) {
    if (server.misconfigured !== undefined) {
      misconfigured.push(name);
      continue;
    }
    const one = known.side(name, digests);
    one.own = true;
    one.nodes.push(own.id);
  }
  for (const [node, advertised] of others) {
    for (const server of advertised) {
      const one = known.side(server.definition.name, server.digests);
      one.instances.push({ node, advertised: server });
      one.nodes.push(node.id);
    }
  }
  const gone = new Sides<LostInstance>();
  for (const instance of lost) {
    const { name } = instance.advertised.definition;
    if (known.has(name)) continue;
    const one = gone.side(name, instance.advertised.digests);
    one.instances.push(instance);
    one.nodes.push(instance.node);
  }
  const places = new Map<string, Place>();
  const conflicts: Conflict[] = [];
  for (const name of [...new Set([...known.names, ...gone.names, ...misconfigured])].sort()) {
    const [first, ...rest] = known.ranked(name);
    if (first === undefined) {
      const [lost] = gone.ranked(name);
      const { server, process } = own.servers.get(name) ?? { server: null, process: false };
      if (lost !== undefined) places.set(name, lostPlace(lost));
      else if (server !== null) places.set(name, { server, process, here: true, otherInstances: [], lost: null });
      continue;
    }
    if (rest.length > 0) conflicts.push({ server: name, sides: [first, ...rest].map(({ nodes }) => nodes) });
    places.set(name, placeOf(name, first, own));
  }
  return { places, servers: [...places.values()].map(({ server }) => server), conflicts };
}

class Sides<Instance> {
  readonly #sides = new Map<string, Side<Instance>[]>();

  get names(): Iterable<string> {
    return this.#sides.keys();
  }

  has(name: string): boolean {
    return this.#sides.has(name);
  }

  /** Definitions that share a digest are equal. While the secret changes, a node with both keys connects those with one. */
  side(name: string, digests: readonly string[]): Side<Instance> {
    let sides = this.#sides.get(name);
    if (sides === undefined) this.#sides.set(name, (sides = []));
    const [first] = sides;
    if (sides.length === 1 && digests.every((digest) => first!.digests.has(digest))) return first!;
    const [found, ...others] = sides.filter((one) => digests.some((digest) => one.digests.has(digest)));
    const side = found ?? { digests: new Set(), instances: [], own: false, nodes: [] };
    if (found === undefined) sides.push(side);
    for (const digest of digests) side.digests.add(digest);
    for (const other of others) {
      sides.splice(sides.indexOf(other), 1);
      for (const digest of other.digests) side.digests.add(digest);
      side.instances.push(...other.instances);
      side.nodes.push(...other.nodes);
      side.own ||= other.own;
    }
    return side;
  }

  ranked(name: string): readonly Side<Instance>[] {
    const sides = this.#sides.get(name) ?? [];
    for (const one of sides) one.nodes.sort();
    // Two nodes may have one name; digests differ.
    const rank = ({ nodes, digests }: Side<Instance>): string => `${nodes[0]} ${[...digests].sort()[0]}`;
    return sides.sort((a, b) => b.nodes.length - a.nodes.length || (rank(a) < rank(b) ? -1 : 1));
  }
}

function placeOf(name: string, { own: here, instances }: Side<RemoteInstance>, own: OwnPart): Place {
  if (here) {
    const { server, process } = own.servers.get(name)!;
    return { server, process, here, otherInstances: instances, lost: null };
  }
  const { definition } = instances[0]!.advertised;
  return {
    server: foreignServer(definition),
    process: definition.process,
    here,
    otherInstances: instances,
    lost: null,
  };
}

/** A singleton has a status only where it ran; any of its nodes may be back first. */
function lostPlace({ instances }: Side<LostInstance>): Place {
  const shown = instances.find(({ advertised }) => advertised.status !== null) ?? instances[0]!;
  const lost = { ...shown, awaitedSince: Math.max(...instances.map(({ awaitedSince }) => awaitedSince)) };
  const { definition } = lost.advertised;
  return { server: foreignServer(definition), process: definition.process, here: false, otherInstances: [], lost };
}

/** Clients need no notification. */
export function sameServers(before: RoutingTable, now: RoutingTable): boolean {
  if (before.servers.length !== now.servers.length) return false;
  return now.servers.every((server, i) => {
    const old = before.servers[i]!;
    return old === server || (!now.places.get(server.name)!.here && isDeepStrictEqual(old, server));
  });
}
