import type { Server } from '../../model/server.ts';
import type { AdvertisedServer } from './advertised.ts';
import { foreignServer } from './foreign-server.ts';
import type { LostInstance } from './lost-instances.ts';
import type { NodeView } from './node-state.ts';

export interface RemoteInstance {
  readonly node: NodeView;
  readonly advertised: AdvertisedServer;
}

export interface Conflict {
  readonly server: string;
  /** Names of nodes grouped by definition; calls go to the first group. */
  readonly sides: readonly (readonly string[])[];
}

export interface Place {
  readonly server: Server;
  /** Each connection to the server is a process. */
  readonly process: boolean;
  /** This node has an instance with the definition that calls go to. */
  readonly here: boolean;
  readonly otherInstances: readonly RemoteInstance[];
  /** Null unless all instances are lost. */
  readonly lost: LostInstance | null;
}

/** Only for processes: a server behind a URL exists once in any case. */
export function runsOnce({ server, process }: Pick<Place, 'server' | 'process'>): boolean {
  return server.singleton === true && process;
}

/** A server that this node has itself. */
interface OwnServer {
  readonly server: Server;
  /** One digest for each accepted key. */
  readonly digests: readonly string[];
  readonly process: boolean;
}

interface DefinitionGroup<Instance> {
  readonly digests: Set<string>;
  readonly instances: Instance[];
  own: boolean;
  nodes: string[];
}

/**
 * Locates a server. Equal definitions are one server with several instances; of different definitions under one name, calls go
 * to the one that most nodes have, on a tie to that of the lowest node id. Lost instances count only if there are no others.
 * Pure: nodes with equal input agree. `place` is null if no node has the server.
 */
export function located(
  name: string,
  self: string,
  own: OwnServer | undefined,
  others: Iterable<RemoteInstance>,
  lost: () => Iterable<LostInstance>,
): { readonly place: Place | null; readonly conflict: Conflict | null } {
  const known = new DefinitionGroups<RemoteInstance>();
  // A misconfigured server is used only if no other node has, or had, the server.
  const misconfigured = own?.server.misconfigured !== undefined;
  if (own !== undefined && !misconfigured) {
    const one = known.group(own.digests);
    one.own = true;
    one.nodes.push(self);
  }
  for (const instance of others) {
    const one = known.group(instance.advertised.digests);
    one.instances.push(instance);
    one.nodes.push(instance.node.id);
  }
  const [first, ...rest] = known.ranked();
  if (first !== undefined) {
    const conflict = rest.length === 0 ? null : { server: name, sides: [first, ...rest].map(({ nodes }) => nodes) };
    return { place: placeOf(first, own), conflict };
  }
  const gone = new DefinitionGroups<LostInstance>();
  for (const instance of lost()) {
    const one = gone.group(instance.advertised.digests);
    one.instances.push(instance);
    one.nodes.push(instance.node);
  }
  const [believed] = gone.ranked();
  if (believed !== undefined) return { place: lostPlace(believed), conflict: null };
  if (own === undefined) return { place: null, conflict: null };
  const { server, process } = own;
  return { place: { server, process, here: true, otherInstances: [], lost: null }, conflict: null };
}

/** The instances of one name, grouped by definition. */
class DefinitionGroups<Instance> {
  #groups: DefinitionGroup<Instance>[] = [];

  /** Definitions that share a digest are equal. During a secret rotation, a node with both keys joins the groups with one. */
  group(digests: readonly string[]): DefinitionGroup<Instance> {
    const [first] = this.#groups;
    if (this.#groups.length === 1 && digests.every((digest) => first!.digests.has(digest))) return first!;
    const [found, ...others] = this.#groups.filter((one) => digests.some((digest) => one.digests.has(digest)));
    const group = found ?? { digests: new Set(), instances: [], own: false, nodes: [] };
    if (found === undefined) this.#groups.push(group);
    for (const digest of digests) group.digests.add(digest);
    for (const other of others) {
      for (const digest of other.digests) group.digests.add(digest);
      group.instances.push(...other.instances);
      group.nodes.push(...other.nodes);
      group.own ||= other.own;
    }
    this.#groups = this.#groups.filter((one) => !others.includes(one));
    return group;
  }

  ranked(): readonly DefinitionGroup<Instance>[] {
    if (this.#groups.length < 2) return this.#groups;
    for (const one of this.#groups) one.nodes.sort();
    // Two nodes may have one name; digests differ.
    const rank = ({ nodes, digests }: DefinitionGroup<Instance>): string => `${nodes[0]} ${[...digests].sort()[0]}`;
    return this.#groups.sort((a, b) => b.nodes.length - a.nodes.length || (rank(a) < rank(b) ? -1 : 1));
  }
}

function placeOf({ own: here, instances }: DefinitionGroup<RemoteInstance>, own: OwnServer | undefined): Place {
  if (here) {
    const { server, process } = own!;
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

/** Only the node that ran a singleton has its status. Any of the nodes may return first, so the latest `awaitedSince` counts. */
function lostPlace({ instances }: DefinitionGroup<LostInstance>): Place {
  const shown = instances.find(({ advertised }) => advertised.status !== null) ?? instances[0]!;
  const lost = { ...shown, awaitedSince: Math.max(...instances.map(({ awaitedSince }) => awaitedSince)) };
  const { definition } = lost.advertised;
  return { server: foreignServer(definition), process: definition.process, here: false, otherInstances: [], lost };
}
