import { isOwnProcess, type Server } from '../../model/server.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { type Directory, directory, sameServers } from './directory.ts';
import type { NodeView } from './node-state.ts';
import type { OfferedServer, OwnOffer } from './own-offer.ts';

export interface KnownServersDeps {
  readonly node: string;
  readonly logger: Logger;
  readonly own: OwnOffer;
  readonly others: () => Iterable<readonly [NodeView, readonly OfferedServer[]]>;
}

/** Every server of the cluster and where its calls can go: made anew whenever this node or another offers something else. */
export class KnownServers {
  readonly #deps: KnownServersDeps;
  #directory: Directory = { places: new Map(), servers: [], conflicts: [] };
  #conflicts = '';

  constructor(deps: KnownServersDeps) {
    this.#deps = deps;
  }

  get directory(): Directory {
    return this.#directory;
  }

  /** The other nodes that calls of the server may go to. */
  homes(server: string): readonly string[] {
    return (this.#directory.places.get(server)?.elsewhere ?? []).map(({ node }) => node.peer);
  }

  /** Whether another node may begin what only one may own of the server. */
  elsewhere(server: string): boolean {
    return this.#directory.places.get(server)?.elsewhere.some(({ node }) => node.state === 'ready') === true;
  }

  /** Whether the set of servers is another one than before, wherever they are. */
  rebuild(): boolean {
    const { node, own, others } = this.#deps;
    const servers = new Map<string, { server: Server; digests: readonly string[]; process: boolean }>();
    for (const server of own.servers) {
      servers.set(server.name, { server, digests: own.digests(server), process: isOwnProcess(server) });
    }
    const before = this.#directory;
    this.#directory = directory({ id: node, servers }, others());
    this.#tellConflicts();
    if (!sameServers(before, this.#directory)) return true;
    this.#directory = { ...this.#directory, servers: before.servers };
    return false;
  }

  #tellConflicts(): void {
    const { conflicts } = this.#directory;
    const text = JSON.stringify(conflicts);
    if (text === this.#conflicts) return;
    this.#conflicts = text;
    for (const { server, sides } of conflicts) {
      this.#deps.logger.error('definitions_conflict', { server, used: sides[0], others: sides.slice(1) });
    }
  }
}
