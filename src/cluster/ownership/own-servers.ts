import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, withTimeout } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { UpstreamEvents } from '../../model/ports.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import { UP } from '../../model/server-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { OwnNode } from '../lease/own-node.ts';
import { fallbackInstances } from '../nodes/instances.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import { type Place, type RemoteInstance, runsOnce } from '../nodes/routing-table.ts';
import { type ClaimEnd, ClaimHandover } from './claim-handover.ts';
import type { Owner } from './claims.ts';
import type { Claim } from './own-claims.ts';
import type { OwnedCalls } from './owned-calls.ts';
import { SINGLETON, servesCalls } from './placement.ts';

const SOON_MS = 1_000;
const RETRY_MS = 1_000;
/** Interval of checks, in case this node missed that an owner ended. */
const LOOK_MS = 1_000;
/** Looks for each reading of the claim of a singleton that runs at another node. */
const LOOKS_PER_READ = 10;
/** A node gives up a singleton that it cannot start for this long … */
export const GIVE_UP_MS = 15_000;
/** … and leaves it to other nodes for this long, so that the next one can try. */
export const PAUSE_MS = 18_000;
export const ENDING = 'its process at this node has not ended yet';

/**
 * The servers of this node's files that run here: all except singletons that run elsewhere. The first node to claim a singleton
 * runs it until its lease ends, or until it cannot start it and another node may. A node owns a removed server until its
 * processes have ended, so that no other node starts it too early. It does not serve claims that it is ending.
 */
export class OwnServers implements ClaimEnd {
  readonly owned: OwnedCalls;
  readonly handover: ClaimHandover;
  readonly #deps: ClusterDeps;
  readonly #self: OwnNode;
  readonly #known: KnownServers;
  readonly #events: Pick<UpstreamEvents, 'stateLost'>;
  readonly #startFailures: StartFailures;
  #desired: ReadonlyMap<string, Server> = new Map();
  #singletons: readonly Server[] = [];
  /** Names of the singletons that run here. */
  readonly #here = new Set<string>();
  /** Number of removals of each server whose processes have not ended. */
  readonly #leaving = new Map<string, number>();
  /** Claims lost during a removal; disowned when it ends, so that their records do not become valid with the next lease. */
  readonly #lost = new Set<Claim>();
  /** Resolves when the last start or end of a singleton has been applied. */
  #applied: Promise<void> = Promise.resolve();
  /** When to ask the store for an owner again; null while it answers in time. */
  #askAgainAt: number | null = null;
  #looking = false;
  #looks = 0;
  #stop: () => void = () => {};

  /** `events` reach the clients of all nodes. */
  constructor(
    deps: ClusterDeps,
    self: OwnNode,
    known: KnownServers,
    owned: OwnedCalls,
    events: Pick<UpstreamEvents, 'stateLost'>,
  ) {
    this.#deps = deps;
    this.#self = self;
    this.#known = known;
    this.owned = owned;
    this.#events = events;
    this.handover = new ClaimHandover(deps, owned, known, this);
    this.#startFailures = new StartFailures(deps.clock);
  }

  /** Resolves when the processes that it replaces have ended; until then this node keeps the claims of removed servers. */
  async replace(servers: ReadonlyMap<string, Server>): Promise<void> {
    const before = this.#desired;
    this.#desired = servers;
    this.#singletons = [...servers.values()].filter((server) => isSingleton(server) && server.enabled);
    const dropped = [...before.values()].filter((server) => owns(server) && !this.#keeps(server));
    for (const { name } of dropped) this.#leaving.set(name, (this.#leaving.get(name) ?? 0) + 1);
    const singletons = new Set(this.#singletons.map(({ name }) => name));
    for (const name of this.#here) if (!singletons.has(name)) this.#here.delete(name);
    for (const { name, connectionDigest } of before.values()) {
      if (servers.get(name)?.connectionDigest !== connectionDigest) this.#startFailures.forget(name);
    }
    this.look();
    try {
      await this.#apply();
    } finally {
      for (const { name } of dropped) this.#left(name);
      for (const { name } of dropped) this.#release(name);
    }
    if (dropped.length > 0) this.look();
  }

  /** Servers at their process limit, and those of them without an idle process. */
  get full(): { readonly full: readonly string[]; readonly inUse: readonly string[] } {
    const { local } = this.#deps;
    const names = [...this.#desired.values()].filter(owns).map(({ name }) => name);
    const full = names.filter((name) => local.capacity(name) !== 'free');
    return { full, inUse: full.filter((name) => local.capacity(name) === 'none') };
  }

  get busy(): number {
    return this.#desired.size === 0 ? 0 : this.#deps.local.inFlight;
  }

  /** Whether the server was removed and its processes have not ended; until then no node starts it. */
  isBeingRemoved(server: string): boolean {
    return this.#leaving.has(server);
  }

  /** Returns the claim if this node serves it now. Every call asks: two look-ups and a comparison. */
  mine({ server }: Place, key: string): Claim | null {
    const claim = this.owned.claims.mine(server.name, key);
    // A singleton starts a moment after this node has claimed it.
    const begun = key !== SINGLETON || this.#here.has(server.name);
    return claim === null || !begun || this.#isEnding(claim) ? null : claim;
  }

  /** Returns the session's claim if a process here serves it: calls then certainly need the claim. Null leaves that open. */
  claimInUse(place: Place, { sessionId }: ClientProfile): Claim | null {
    const { isolation } = place.server;
    if (sessionId === null || !place.process || runsOnce(place)) return null;
    if (isolation === 'shared' || isolation === 'principal') return null;
    const claim = this.mine(place, sessionId);
    return claim !== null && claim.serving > 0 ? claim : null;
  }

  /** Whether this node is ending or handing over the claim, so that no node serves it at the moment. */
  ending({ server }: Place, key: string): boolean {
    const claim = this.owned.claims.mine(server.name, key);
    return claim !== null && this.#isEnding(claim);
  }

  /** Returns the owner, after claiming the key if possible. Null: no owner, and this node must not take the claim. */
  async ownerOf(place: Place, key: string, client: ClientProfile): Promise<Owner | null> {
    const leaves = place.otherInstances.length > 0 && (this.#self.draining || this.yields(place, key, client));
    if (place.here && !leaves) return this.#claim(place, key, client);
    return this.owned.claims.owner(place.server.name, key);
  }

  /** Returns null if this node or no node owns the key, or if the owner is unknown. */
  async instanceOfOwner({ server, otherInstances }: Place, key: string): Promise<RemoteInstance | null> {
    if (otherInstances.length === 0 || this.owned.claims.mine(server.name, key) !== null) return null;
    const owner = await this.#ownerSoon(server.name, key);
    return otherInstances.find(({ node }) => owner?.kind === 'theirs' && node.peer === owner.peer) ?? null;
  }

  /** Claims the key unless another node owns it. Rejects with GatewayError, also if this node leaves it to others. */
  async claim(place: Place, key: string, client: ClientProfile): Promise<Owner> {
    // Without the client: a call that failed elsewhere gets a try here.
    if (this.yields(place, key, null)) throw notStarted(place.server.name);
    const owner = await this.#claim(place, key, client);
    if (owner !== null) return owner;
    const server = place.server.name;
    const why = this.ending(place, key) ? ENDING : 'the files of this node no longer need it';
    throw new GatewayError('NOT_SENT', `${server}: ${why}`, { server });
  }

  /** Starts what this node has claimed. Returns false if the server was removed meanwhile or its singleton is barred. */
  async claimed(claim: Claim): Promise<boolean> {
    const { server, key } = claim;
    if (this.isBeingRemoved(server) || (key === SINGLETON && this.handover.isBarred(claim))) return false;
    if (!this.#placed(claim)) {
      await this.owned.claims.release(server, key, false);
      return false;
    }
    if (key !== SINGLETON) return true;
    if (!this.#here.has(server)) {
      this.#here.add(server);
      this.#deps.logger.info('singleton_claimed', { server });
      this.#applied = this.#apply();
    }
    await this.#applied;
    return true;
  }

  /** Whether this node leaves a new client to other nodes that can start the server. */
  yields(place: Place, key: string, client: ClientProfile | null): boolean {
    if (key === SINGLETON) return this.#yieldsSingleton(place.server.name);
    return fallbackInstances(place, this.#deps.local, client).length > 0;
  }

  lost(claim: Claim): void {
    const { server, key, client } = claim;
    const { local, logger } = this.#deps;
    const { claims } = this.owned;
    const ended = local.surrender(server, key === SINGLETON ? null : (client ?? 'spare'));
    if (key === SINGLETON && this.#here.delete(server)) {
      logger.warn('singleton_lost', { server });
      this.#applied = this.#apply();
    }
    if (this.isBeingRemoved(server)) this.#lost.add(claim);
    else {
      const failed = (error: unknown): void => logger.error('lost_process_not_ended', { server, error });
      // The record names this live node, so that no other node could take the claim.
      void ended.catch(failed).then(() => claims.disown(claim));
    }
  }

  /** Ends the processes of the claim after their calls. Resolves when nothing is left. */
  async handOver({ server, key, client }: Claim): Promise<void> {
    const { local, logger } = this.#deps;
    const runs = key === SINGLETON && this.#here.delete(server);
    if (runs) {
      logger.info('singleton_handed_over', { server });
      this.#applied = this.#apply();
    }
    await Promise.all([runs ? this.#applied : null, local.handOver(server, key === SINGLETON ? null : client)]);
  }

  /** Claims the singletons that no node runs, and checks those that run here. */
  look(): void {
    this.#stop();
    this.#stop = this.#deps.clock.after(LOOK_MS, () => this.look());
    if (this.#singletons.length === 0 || this.#looking || !this.#self.able) return;
    this.#looking = true;
    void this.#take().finally(() => {
      this.#looking = false;
    });
  }

  #keeps(before: Server): boolean {
    const now = this.#desired.get(before.name);
    return now !== undefined && owns(now) && isSingleton(now) === isSingleton(before);
  }

  #left(name: string): void {
    const times = this.#leaving.get(name)! - 1;
    if (times === 0) this.#leaving.delete(name);
    else this.#leaving.set(name, times);
  }

  /** Releases the server's claims unless the files name it again, or a later removal has not ended. */
  #release(name: string): void {
    if (this.isBeingRemoved(name)) return;
    const { claims } = this.owned;
    for (const claim of claims.all()) {
      if (claim.server === name && !this.#placed(claim)) void claims.release(name, claim.key, false);
    }
    for (const claim of this.#lost) {
      if (claim.server !== name) continue;
      this.#lost.delete(claim);
      claims.disown(claim);
    }
  }

  /** Whether the files still need the claim. A claim of a warm connection or a stream has an end of its own. */
  #placed(claim: Claim): boolean {
    if (!servesCalls(claim)) return true;
    const now = this.#desired.get(claim.server);
    return now !== undefined && owns(now) && isSingleton(now) === (claim.key === SINGLETON);
  }

  #apply(): Promise<void> {
    const here = [...this.#desired].filter(([name, server]) => !isSingleton(server) || this.#here.has(name));
    return this.#deps.local.apply(new Map(here));
  }

  #yieldsSingleton(server: string): boolean {
    return this.#startFailures.paused(server) && this.#known.readyElsewhere(server);
  }

  async #take(): Promise<void> {
    const { claims } = this.owned;
    this.#looks++;
    for (const { name } of this.#singletons) {
      const mine = claims.mine(name, SINGLETON);
      const runs = mine !== null && this.#here.has(name);
      if (runs) this.#judge(mine);
      if (runs || this.isBeingRemoved(name) || this.#yieldsSingleton(name)) continue;
      // The loss of its node is reported; the claim is read as well, at times.
      if (mine === null && this.#known.runsElsewhere(name) && this.#looks % LOOKS_PER_READ !== 0) continue;
      try {
        const owner = await claims.claim(name, SINGLETON);
        if (owner.kind === 'mine' && this.#self.able) await this.claimed(owner.claim);
      } catch (error) {
        this.#deps.logger.debug('singleton_not_claimed', { server: name, error: String(error) });
      }
    }
  }

  /** Gives up a singleton that could not be started for long, if another node could run it. */
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
      this.handover.giveUp(claim);
    }
  }

  /** Null without an owner. Waits a second for a silent store; after that returns null at once until the store has answered. */
  #ownerSoon(server: string, key: string): Promise<Owner | null> {
    const clock = this.#deps.clock;
    const silent = this.#askAgainAt !== null;
    if (clock.now() < (this.#askAgainAt ?? 0)) return Promise.resolve(null);
    const askAgainAt = (at: number): null => {
      this.#askAgainAt = at;
      return null;
    };
    const answer = this.owned.claims.owner(server, key).then(
      (owner) => {
        this.#askAgainAt = null;
        return owner;
      },
      () => askAgainAt(clock.now() + RETRY_MS),
    );
    const silence = (): null => askAgainAt(Number.POSITIVE_INFINITY);
    return silent ? Promise.resolve(silence()) : withTimeout(clock, SOON_MS, answer, silence);
  }

  #isEnding(claim: Claim): boolean {
    return this.isBeingRemoved(claim.server) || this.handover.isBarred(claim);
  }

  /** Returns null if this node does not start what it claimed (see `claimed`). */
  async #claim(place: Place, key: string, client: ClientProfile): Promise<Owner | null> {
    const { name } = place.server;
    const whose = key === SINGLETON ? null : client;
    const owner = await this.owned.claims.claim(name, key, whose);
    if (owner.kind === 'theirs') return owner;
    if (!(await this.claimed(owner.claim))) return null;
    if (whose !== null && !owner.claim.fresh && !owner.claim.lossReported) {
      owner.claim.lossReported = true;
      if (client.sessionId !== null) this.#events.stateLost(name, client.sessionId, 'restarted');
    }
    return owner;
  }
}

export function notStarted(server: string): GatewayError {
  return new GatewayError('NOT_SENT', `${server} cannot be started at this node`, { server });
}

function owns(server: Server): boolean {
  return server.enabled && isOwnProcess(server);
}

export function isSingleton(server: Server): boolean {
  return runsOnce({ server, process: isOwnProcess(server) });
}

/** Decides when this node leaves a singleton that it cannot start to other nodes. */
export class StartFailures {
  readonly #clock: Clock;
  readonly #failingSince = new Map<string, number>();
  readonly #pausedUntil = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isLong(server: string, failing: boolean): boolean {
    const now = this.#clock.now();
    const since = failing ? (this.#failingSince.get(server) ?? now) : null;
    if (since === null) this.#failingSince.delete(server);
    else this.#failingSince.set(server, since);
    return since !== null && now - since >= GIVE_UP_MS;
  }

  gaveUp(server: string): void {
    this.#failingSince.delete(server);
    this.#pausedUntil.set(server, this.#clock.now() + PAUSE_MS);
  }

  paused(server: string): boolean {
    const until = this.#pausedUntil.get(server);
    if (until !== undefined && this.#clock.now() >= until) this.#pausedUntil.delete(server);
    return this.#pausedUntil.has(server);
  }

  forget(server: string): void {
    this.#failingSince.delete(server);
    this.#pausedUntil.delete(server);
  }
}
