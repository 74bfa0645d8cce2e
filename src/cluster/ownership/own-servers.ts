import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import { UP } from '../../model/server-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { OwnNode } from '../lease/own-node.ts';
import { instancesInstead } from '../nodes/instances.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { Place } from '../nodes/routing-table.ts';
import { type ClaimEnd, HandingOver } from './handing-over.ts';
import type { Claim } from './own-claims.ts';
import type { OwnedCalls } from './owned-calls.ts';
import { SINGLETON, servesCalls } from './placement.ts';

/** Each node looks so often whether a singleton has become free, in case it missed the end of the owner. */
const LOOK_MS = 1_000;
/** What could not be started here for so long is left to the other nodes … */
export const GIVE_UP_MS = 15_000;
/** … and this one leaves it to them for so long: a little longer than that, so that the next one has had its try. */
export const PAUSE_MS = 18_000;

/**
 * The servers of this node's files that run here: all but the singletons that run elsewhere. A server that the files name
 * no more is this node's until its processes have ended: before, no other node may begin what only one may run.
 */
export class OwnServers implements ClaimEnd {
  readonly owned: OwnedCalls;
  readonly handingOver: HandingOver;
  readonly #deps: ClusterDeps;
  readonly #singletons: Singletons;
  #desired: ReadonlyMap<string, Server> = new Map();
  /** How many times each was dropped whose processes have not ended since. */
  readonly #leaving = new Map<string, number>();
  /** Lost while that was so. Their records count again with this node's lease, unless another node has taken them. */
  readonly #lost = new Set<Claim>();

  constructor(deps: ClusterDeps, self: OwnNode, known: KnownServers, owned: OwnedCalls) {
    this.#deps = deps;
    this.owned = owned;
    this.handingOver = new HandingOver(deps, owned, known, this);
    this.#singletons = new Singletons(deps, self, known, this);
  }

  /** The definitions of this node's own files. Resolves when what they replace has ended. */
  async replace(servers: ReadonlyMap<string, Server>): Promise<void> {
    const before = this.#desired;
    this.#desired = servers;
    const dropped = [...before.values()].filter((server) => owns(server) && !this.#keeps(server));
    for (const { name } of dropped) this.#leaving.set(name, (this.#leaving.get(name) ?? 0) + 1);
    this.#singletons.replace(servers.values());
    const applied = this.apply();
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
    const local = this.#deps.local;
    const rooms = [...this.#desired.values()].filter(owns).map(({ name }) => ({ name, room: local.room(name) }));
    const full = rooms.filter(({ room }) => room !== 'free');
    const inUse = full.filter(({ room }) => room === 'none');
    return { full: full.map(({ name }) => name), inUse: inUse.map(({ name }) => name) };
  }

  /** Calls that they have in hand. */
  get busy(): number {
    return this.#desired.size === 0 ? 0 : this.#deps.local.inFlight;
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
    if (this.leaving(server) || (key === SINGLETON && this.handingOver.isBarred(claim))) return false;
    if (!this.#placed(claim)) {
      await this.owned.claims.release(server, key, false);
      return false;
    }
    if (key === SINGLETON) await this.#singletons.begin(server);
    return true;
  }

  /** A new client is for other nodes to serve: they can start the server, or may, and this one could not. */
  yields(place: Place, key: string, client: ClientProfile | null): boolean {
    if (key === SINGLETON) return this.#singletons.yields(place.server.name);
    return instancesInstead(place, this.#deps.local, client).length > 0;
  }

  /** It is not this node's any more, nor is it to be with its next lease, unless it is claimed here again. */
  lost(claim: Claim): void {
    const { server, key, client } = claim;
    const { local, logger } = this.#deps;
    const { claims } = this.owned;
    const ended = local.surrender(server, key === SINGLETON ? null : (client ?? 'spare'));
    if (key === SINGLETON) this.#singletons.lost(server);
    if (this.leaving(server)) this.#lost.add(claim);
    else {
      const failed = (error: unknown): void => logger.error('lost_process_not_ended', { server, error });
      // Its record names this node, which lives: no other node could take it.
      void ended.catch(failed).then(() => claims.disown(claim));
    }
  }

  /** Another node is to have it: what runs of it here ends in good order. Resolves when nothing of it is left. */
  async handOver({ server, key, client }: Claim): Promise<void> {
    const left = key === SINGLETON ? this.#singletons.leave(server) : null;
    await Promise.all([left, this.#deps.local.handOver(server, key === SINGLETON ? null : client)]);
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
    const { claims } = this.owned;
    for (const claim of claims.all()) {
      if (claim.server === name && !this.#placed(claim)) void claims.release(name, claim.key, false);
    }
    for (const claim of [...this.#lost]) {
      if (claim.server !== name) continue;
      this.#lost.delete(claim);
      claims.disown(claim);
    }
  }

  /** Whether the files name a server that it can be served by. What serves no client yet ends with its process. */
  #placed(claim: Claim): boolean {
    if (!servesCalls(claim)) return true;
    const now = this.#desired.get(claim.server);
    return now !== undefined && owns(now) && isSingleton(now) === (claim.key === SINGLETON);
  }

  /** Runs what runs here now. */
  apply(): Promise<void> {
    const here = [...this.#desired].filter(([, server]) => this.#singletons.runsHere(server));
    return this.#deps.local.apply(new Map(here));
  }
}

/** Whether there may be processes of it that only one node may have. */
function owns(server: Server): boolean {
  return server.enabled && isOwnProcess(server);
}

/** Only processes are counted: what is behind a URL is there once in any case. */
export function isSingleton(server: Server): boolean {
  return server.singleton === true && isOwnProcess(server);
}

/**
 * The servers of which the whole cluster runs one: the instance that claims one first runs it, until its lease ends, or, if it
 * cannot be started there and another instance may start, until that is certain.
 */
class Singletons {
  readonly #deps: ClusterDeps;
  readonly #self: OwnNode;
  readonly #known: KnownServers;
  readonly #own: OwnServers;
  #servers: readonly Server[] = [];
  readonly #here = new Set<string>();
  readonly #startFailures: StartFailures;
  #looking = false;
  #stop: () => void = () => {};
  #closed = false;
  #applied: Promise<void> = Promise.resolve();

  constructor(deps: ClusterDeps, self: OwnNode, known: KnownServers, own: OwnServers) {
    this.#deps = deps;
    this.#self = self;
    this.#known = known;
    this.#own = own;
    this.#startFailures = new StartFailures(deps.clock);
  }

  /** Which of these definitions run here now. */
  runsHere(server: Server): boolean {
    return !isSingleton(server) || this.#here.has(server.name);
  }

  /** The claims of those that are not among them any more are kept: their processes are there still. */
  replace(servers: Iterable<Server>): void {
    const before = this.#servers;
    this.#servers = [...servers].filter((server) => isSingleton(server) && server.enabled);
    const now = new Map(this.#servers.map((server) => [server.name, server]));
    for (const name of [...this.#here]) if (!now.has(name)) this.#here.delete(name);
    // Another one may have more luck.
    for (const { name, connectionDigest } of before) {
      if (now.get(name)?.connectionDigest !== connectionDigest) this.#startFailures.forget(name);
    }
    this.look();
  }

  /** Something may have become free. */
  look(): void {
    if (this.#closed) return;
    this.#stop();
    this.#stop = this.#deps.clock.after(LOOK_MS, () => this.look());
    if (this.#servers.length === 0 || this.#looking || !this.#self.able) return;
    this.#looking = true;
    void this.#take().finally(() => {
      this.#looking = false;
    });
  }

  /** This node could not start it, and lets others have it first. */
  yields(server: string): boolean {
    return this.#startFailures.paused(server) && this.#known.readyElsewhere(server);
  }

  /** A call has claimed it: it has to run here before it is used. */
  async begin(server: string): Promise<void> {
    if (this.#own.leaving(server)) return;
    if (!this.#here.has(server)) {
      this.#here.add(server);
      this.#deps.logger.info('singleton_claimed', { server });
      this.#applied = this.#own.apply();
    }
    await this.#applied;
  }

  /** Another node has it, or may have. */
  lost(server: string): void {
    if (!this.#here.delete(server)) return;
    this.#deps.logger.warn('singleton_lost', { server });
    this.#applied = this.#own.apply();
  }

  /** Another node is to have it. Resolves when what ran of it here has ended. */
  async leave(server: string): Promise<void> {
    if (!this.#here.delete(server)) return;
    this.#deps.logger.info('singleton_handed_over', { server });
    await (this.#applied = this.#own.apply());
  }

  close(): void {
    this.#closed = true;
    this.#stop();
  }

  async #take(): Promise<void> {
    const { claims } = this.#own.owned;
    for (const { name } of this.#servers) {
      const mine = claims.mine(name, SINGLETON);
      const runs = mine !== null && this.#here.has(name);
      if (runs) this.#judge(mine);
      if (runs || this.#own.leaving(name) || this.yields(name)) continue;
      try {
        const owner = await claims.claim(name, SINGLETON);
        if (owner.kind === 'mine' && !this.#closed) await this.#own.claimed(owner.claim);
      } catch (error) {
        this.#deps.logger.debug('singleton_not_claimed', { server: name, error: String(error) });
      }
    }
  }

  /** What runs may stay, and so may what no other node could run. */
  #judge(claim: Claim): void {
    const { local, logger } = this.#deps;
    const { server } = claim;
    const status = local.status(server);
    if (UP.has(status?.state ?? 'unknown')) this.#startFailures.forget(server);
    else if (
      this.#startFailures.isLong(server, local.failing(server)) &&
      claim.serving === 0 &&
      this.#known.readyElsewhere(server)
    ) {
      this.#startFailures.gaveUp(server);
      logger.warn('singleton_given_up', { server, reason: status?.reason ?? 'it could not be started here' });
      this.#own.handingOver.giveUp(claim);
    }
  }
}

/** When other nodes are to have a try at what this one owns and cannot start. */
export class StartFailures {
  readonly #clock: Clock;
  readonly #failingSince = new Map<string, number>();
  readonly #pausedUntil = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Asked at every look at what this node has. */
  isLong(server: string, failing: boolean): boolean {
    const now = this.#clock.now();
    const since = failing ? (this.#failingSince.get(server) ?? now) : null;
    if (since === null) this.#failingSince.delete(server);
    else this.#failingSince.set(server, since);
    return since !== null && now - since >= GIVE_UP_MS;
  }

  /** It is left to the others now. */
  gaveUp(server: string): void {
    this.#failingSince.delete(server);
    this.#pausedUntil.set(server, this.#clock.now() + PAUSE_MS);
  }

  /** It is for others to take, if there are any. */
  paused(server: string): boolean {
    const until = this.#pausedUntil.get(server);
    if (until !== undefined && this.#clock.now() >= until) this.#pausedUntil.delete(server);
    return this.#pausedUntil.has(server);
  }

  /** It runs here, or is another one from now on. */
  forget(server: string): void {
    this.#failingSince.delete(server);
    this.#pausedUntil.delete(server);
  }
}
