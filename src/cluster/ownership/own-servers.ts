import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LocalUpstreams } from '../cluster-deps.ts';
import { instancesInstead } from '../nodes/instances.ts';
import type { Place } from '../nodes/routing-table.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './held-claims.ts';
import { SINGLETON, servesCalls } from './placement.ts';
import { isSingleton, Singletons } from './singletons.ts';

export interface OwnServersDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly claims: Claims;
  readonly local: () => LocalUpstreams;
  /** Whether this node may take something new. */
  readonly able: () => boolean;
  /** Whether another node may take what only one may own of the server. */
  readonly readyElsewhere: (server: string) => boolean;
  /** It is on its way to another node. */
  readonly barred: (claim: Claim) => boolean;
  /** Another node is to have it, as soon as nothing is left of it here. */
  readonly giveUp: (claim: Claim) => void;
}

/**
 * The servers of this node's files that run here: all but the singletons that run elsewhere. A server that the files name
 * no more is this node's until its processes have ended: before, nobody else may begin what only one may run.
 */
export class OwnServers {
  readonly #deps: OwnServersDeps;
  readonly #singletons: Singletons;
  #desired: ReadonlyMap<string, Server> = new Map();
  /** How many times each was dropped whose processes have not ended since. */
  readonly #leaving = new Map<string, number>();
  /** Lost while that was so. Their records count again with this node's lease, unless somebody has taken them. */
  readonly #lost = new Set<Claim>();

  constructor(deps: OwnServersDeps) {
    this.#deps = deps;
    this.#singletons = new Singletons({
      ...deps,
      changed: () => this.#apply(),
      claimed: (claim) => this.claimed(claim),
      leaving: (server) => this.leaving(server),
    });
  }

  /** The definitions of this node's own files. Resolves when what they replace has ended. */
  async replace(servers: ReadonlyMap<string, Server>): Promise<void> {
    const before = this.#desired;
    this.#desired = servers;
    const dropped = [...before.values()].filter((server) => owns(server) && !this.#keeps(server));
    for (const { name } of dropped) this.#leaving.set(name, (this.#leaving.get(name) ?? 0) + 1);
    this.#singletons.replace(servers.values());
    const applied = this.#apply();
    try {
      await applied;
    } finally {
      for (const { name } of dropped) this.#left(name);
      for (const { name } of dropped) this.#release(name);
    }
    if (dropped.length > 0) this.#singletons.look();
  }

  /** Those of which no process more may be started here unless an idle one ends, and those of which none is idle. */
  get full(): { readonly full: readonly string[]; readonly inUse: readonly string[] } {
    const local = this.#deps.local();
    const rooms = [...this.#desired.values()].filter(owns).map(({ name }) => ({ name, room: local.room(name) }));
    const full = rooms.filter(({ room }) => room !== 'free');
    const inUse = full.filter(({ room }) => room === 'none');
    return { full: full.map(({ name }) => name), inUse: inUse.map(({ name }) => name) };
  }

  /** Calls that they have in hand. */
  get busy(): number {
    return this.#desired.size === 0 ? 0 : this.#deps.local().inFlight;
  }

  /** It was dropped, and its processes have not ended: nothing of it begins here, nor elsewhere. */
  leaving(server: string): boolean {
    return this.#leaving.has(server);
  }

  /**
   * What has become this node's has to run here before it is used. False: the files have dropped the server while the
   * store was asked; others may have it, or will when what runs of it here has ended.
   */
  async claimed(claim: Claim): Promise<boolean> {
    const { server, key } = claim;
    if (this.leaving(server) || (key === SINGLETON && this.#deps.barred(claim))) return false;
    if (!this.#placed(claim)) {
      await this.#deps.claims.release(server, key, false);
      return false;
    }
    if (key === SINGLETON) await this.#singletons.begin(server);
    return true;
  }

  /** Whoever comes anew is for other nodes to serve, if nobody does yet: they can start it, or may, and this one could not. */
  yields(place: Place, key: string, client: ClientProfile | null): boolean {
    if (key === SINGLETON) return this.#singletons.yields(place.server.name);
    return instancesInstead(place, this.#deps.local(), client).length > 0;
  }

  /** It is not this node's any more, nor is it to be with its next lease, unless somebody wants it here again. */
  lost(claim: Claim): void {
    const { server, key, client } = claim;
    const { local, claims, logger } = this.#deps;
    const ended = local().surrender(server, key === SINGLETON ? null : (client ?? 'spare'));
    if (key === SINGLETON) this.#singletons.lost(server);
    if (this.leaving(server)) this.#lost.add(claim);
    else {
      const failed = (error: unknown): void => logger.error('lost_process_not_ended', { server, error });
      // Its record names this node, which lives: nobody else could take it.
      void ended.catch(failed).then(() => claims.disown(claim));
    }
  }

  /** Another node is to have it: what runs of it here ends in good order. Resolves when nothing of it is left. */
  async handOver({ server, key, client }: Claim): Promise<void> {
    const left = key === SINGLETON ? this.#singletons.leave(server) : null;
    await Promise.all([left, this.#deps.local().handOver(server, key === SINGLETON ? null : client)]);
  }

  /** Something may have become free. */
  look(): void {
    this.#singletons.look();
  }

  close(): void {
    this.#singletons.close();
  }

  /** Whether what this node owns of the server, as it was, still has a place here. */
  #keeps(before: Server): boolean {
    const now = this.#desired.get(before.name);
    return now !== undefined && owns(now) && isSingleton(now) === isSingleton(before);
  }

  #left(name: string): void {
    const times = this.#leaving.get(name)! - 1;
    if (times === 0) this.#leaving.delete(name);
    else this.#leaving.set(name, times);
  }

  /** Others may have it, unless the files name it again, or those of a later dropping are still ending. */
  #release(name: string): void {
    if (this.leaving(name)) return;
    const { claims } = this.#deps;
    for (const claim of claims.all()) {
      if (claim.server === name && !this.#placed(claim)) void claims.release(name, claim.key, false);
    }
    for (const claim of [...this.#lost]) {
      if (claim.server !== name) continue;
      this.#lost.delete(claim);
      claims.disown(claim);
    }
  }

  /** Whether the files name a server that it can be served by. What is nobody's yet ends with its process. */
  #placed(claim: Claim): boolean {
    if (!servesCalls(claim)) return true;
    const now = this.#desired.get(claim.server);
    return now !== undefined && owns(now) && isSingleton(now) === (claim.key === SINGLETON);
  }

  #apply(): Promise<void> {
    const here = [...this.#desired].filter(([, server]) => this.#singletons.runsHere(server));
    return this.#deps.local().apply(new Map(here));
  }
}

/** Whether there may be processes of it that only one node may have. */
function owns(server: Server): boolean {
  return server.enabled && isOwnProcess(server);
}
