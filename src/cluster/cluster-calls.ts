import { CallAttempts } from '../model/call-attempts.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import { pause } from '../model/clock.ts';
import type { Exchange } from '../model/exchange.ts';
import { cancelledBeforeSend, GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { UpstreamEvents, Upstreams } from '../model/ports.ts';
import { messageOf } from '../model/thrown.ts';
import {
  addTriedTime,
  deadlineOf,
  didNotStart,
  elsewhere,
  failedAttempt,
  inTime,
  isCapacityFailure,
  isListen,
  notHere,
  notPassedOn,
  recordLocalFailure,
  type Served,
} from './calls/attempts.ts';
import { RelayedCalls } from './calls/relayed-calls.ts';
import { RemoteCalls } from './calls/remote-calls.ts';
import { SharedInstances } from './calls/shared-instances.ts';
import { mayGiveState, nodeOfState, withNode, withoutNode } from './calls/states-of-processes.ts';
import type { ClusterDeps } from './cluster-deps.ts';
import type { OwnNode } from './lease/own-node.ts';
import type { ForeignCatalogs } from './nodes/foreign-catalogs.ts';
import { fallbackInstances, Instances } from './nodes/instances.ts';
import type { KnownServers } from './nodes/known-servers.ts';
import { whyLost } from './nodes/lost-instances.ts';
import type { Place, RemoteInstance } from './nodes/routing-table.ts';
import type { Owner } from './ownership/claims.ts';
import type { Claim } from './ownership/own-claims.ts';
import { ENDING, notStarted, type OwnServers } from './ownership/own-servers.ts';
import { affinity, claimKey, pickInstance, SINGLETON } from './ownership/placement.ts';
import { isSubscriptionRequest, SharedWatches } from './streams/shared-watches.ts';

/** How long a call looks for a node: longer than it takes to end the lease of a dead node. */
const PLACE_MS = 5_000;
const PAUSE_MS = 100;

/** The parts of this node that calls use. */
export interface CallParts {
  readonly deps: ClusterDeps;
  /** Relays events to the clients of all nodes. */
  readonly events: UpstreamEvents;
  readonly self: OwnNode;
  readonly known: KnownServers;
  readonly servers: OwnServers;
}

/** Routes each call to the node that serves it. Retries a call that has not started; one that may have run ends UNKNOWN. */
export class ClusterCalls {
  readonly relayed: RelayedCalls;
  readonly #parts: CallParts;
  readonly #catalogs: Pick<ForeignCatalogs, 'learn'>;
  readonly #lists: Pick<Upstreams, 'knownCatalog'>;
  readonly #watches: SharedWatches;
  readonly #instances = new Instances();
  readonly shared: SharedInstances;
  readonly #remote: RemoteCalls;
  sentElsewhere = 0;
  /** While this node drains, the calling node retries a call that did not start here on another node. */
  readonly #unlessLeaving = (served: Served): Served => {
    const unbegun = served.kind === 'failure' && served.error.outcome === 'NOT_SENT';
    return unbegun && this.#parts.self.draining ? elsewhere(served.error.message) : served;
  };

  constructor(parts: CallParts, catalogs: Pick<ForeignCatalogs, 'learn'>, lists: Pick<Upstreams, 'knownCatalog'>) {
    const { deps, events, self, known } = parts;
    this.#parts = parts;
    this.#catalogs = catalogs;
    this.#lists = lists;
    this.shared = new SharedInstances({ deps, self, instances: this.#instances, events, lists });
    this.#remote = new RemoteCalls(deps.bus);
    this.relayed = new RelayedCalls(deps, known);
    this.#watches = new SharedWatches(deps, events, known);
  }

  get reached(): boolean {
    return this.#parts.deps.bus.connected;
  }

  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    if (exchange.returned === true) return this.relayed.outcomeOf(server, exchange);
    if (exchange.searchStartedAt !== undefined) exchange.searchStartedAt = exchange.triedMs = undefined;
    const place = this.#parts.known.place(server);
    if (place === undefined) return this.#parts.deps.local.call(server, request, exchange);
    const claimInUse = this.#parts.servers.claimInUse(place, exchange.client);
    if (claimInUse !== null) return this.#callOwned(claimInUse, request, exchange);
    const key = claimKey(place, exchange.client, this.#lists);
    if (key === null && this.#servesHere(place, request, exchange.client)) {
      return this.#withFallback(server, this.#callHere(place, request, exchange), request, exchange);
    }
    const claim = key === null ? null : this.#parts.servers.mine(place, key);
    if (claim !== null) return this.#callMine(claim, request, exchange);
    return this.#callSomewhere(server, request, exchange);
  }

  /** Serves a call from another node; never forwards it to a third one. */
  serve(server: string, request: Message, exchange: Exchange, epoch: string | null, by: string): Promise<Served> {
    return this.#serveHere(server, request, exchange, epoch, by).then(this.#unlessLeaving);
  }

  #serveHere(server: string, request: Message, exchange: Exchange, epoch: string | null, by: string): Promise<Served> {
    const place = this.#parts.known.place(server);
    if (place?.here !== true) return notHere(`${server} is not defined here`);
    const claimInUse = this.#parts.servers.claimInUse(place, exchange.client);
    const key = claimInUse?.key ?? claimKey(place, exchange.client, this.#lists);
    const claim = claimInUse ?? (key === null ? null : this.#parts.servers.mine(place, key));
    if (claim !== null) {
      if (epoch !== null && epoch !== claim.epoch) return notHere('the owner is another one since');
      return this.#serveMine(claim, request, exchange);
    }
    if (this.#parts.self.draining) return notHere('this node takes nothing new');
    if (key === null) return this.#serveUnowned(place, request, exchange, by);
    if (this.#parts.servers.ending(place, key)) return notHere(ENDING);
    return this.#serveClaimed(place, key, request, exchange);
  }

  async #serveClaimed(place: Place, key: string, request: Message, exchange: Exchange): Promise<Served> {
    let owner: Owner;
    try {
      owner = await this.#parts.servers.claim(place, key, exchange.client);
    } catch (error) {
      return elsewhere(messageOf(error));
    }
    if (owner.kind === 'theirs') return elsewhere(`${place.server.name} is owned by ${owner.node}`);
    return this.#serveMine(owner.claim, request, exchange);
  }

  #serveUnowned(place: Place, request: Message, exchange: Exchange, by: string): Promise<Served> {
    const here = this.#callHere(place, request, exchange, by);
    // Only the process that issued the state can continue it.
    if (place.process && nodeOfState(request) === this.#parts.deps.bus.peer) return here;
    const { name } = place.server;
    return here.then((outcome) =>
      this.#canFallBack(name, outcome, exchange) ? elsewhere(notStarted(name).message) : outcome,
    );
  }

  /** The peer that the client's calls go to; null if it is this node or unknown. */
  peerOf(place: Place, client: ClientProfile): string | null {
    const key = claimKey(place, client, this.#lists);
    if (key === null && place.here) return null;
    const own = key ?? affinity(place, client, this.#lists);
    return own === null ? null : (this.#instances.known(place, own)?.instance.node.peer ?? null);
  }

  /** The instance at another node that owns the client's process; null if none does, or if calls need no owner. */
  async ownerElsewhere(place: Place, client: ClientProfile): Promise<RemoteInstance | null> {
    const key = claimKey(place, client, this.#lists);
    return key === null || key === SINGLETON ? null : this.#parts.servers.instanceOfOwner(place, key);
  }

  /** Returns the peers that the session's calls went to. */
  forgetSession(sessionId: string): ReadonlySet<string> {
    this.shared.forgetSession(sessionId);
    return this.#instances.forgetSession(sessionId);
  }

  gone(peer: string): void {
    this.#watches.forgetPeer(peer);
  }

  renew(): void {
    this.#watches.renew();
  }

  #servesHere(place: Place, request: Message, client: ClientProfile): boolean {
    if (this.shared.next(place, client) !== null || !place.here) return false;
    if (this.#instanceOfState(place, request) !== null) return false;
    return this.#fallbackInstances(place).length === 0;
  }

  /** The instances that serve instead of this node; none while the bus is down: then this node tries a failing server. */
  #fallbackInstances(place: Place, triedFor: ClientProfile | null = null): readonly RemoteInstance[] {
    return this.reached ? fallbackInstances(place, this.#parts.deps.local, triedFor) : [];
  }

  /** While this node cannot start the server, keeps only the instances that run. */
  #instead(place: Place): Place {
    const instead = this.#fallbackInstances(place);
    return instead.length > 0 ? { ...place, otherInstances: instead } : place;
  }

  /** Sends a call that did not start, because the server does not start here, to a node that runs the server. */
  #withFallback(server: string, tried: Promise<Outcome>, request: Message, exchange: Exchange): Promise<Outcome> {
    const since = this.#parts.deps.clock.now();
    return tried.then((outcome) => {
      if (outcome.kind === 'answer' || !this.#canFallBack(server, outcome, exchange)) return outcome;
      recordLocalFailure(exchange, since, this.#parts.deps.clock, outcome.error);
      return this.#callSomewhere(server, request, exchange);
    });
  }

  /** Looks up the other instances after the failure, because a start takes time. */
  #canFallBack(server: string, outcome: Outcome, exchange: Exchange, triedFor: ClientProfile | null = null): boolean {
    if (exchange.cancelled !== null || !didNotStart(outcome)) return false;
    const place = this.#parts.known.place(server);
    return place !== undefined && this.#fallbackInstances(place, triedFor).length > 0;
  }

  #callMine(claim: Claim, request: Message, exchange: Exchange): Promise<Outcome> {
    const called = this.#callOwned(claim, request, exchange);
    if (claim.serving > 0) return called;
    const since = this.#parts.deps.clock.now();
    return called.then(async (outcome) => {
      if ((await this.#releaseUnstarted(claim, outcome, exchange, claim.client)) === null || outcome.kind === 'answer')
        return outcome;
      recordLocalFailure(exchange, since, this.#parts.deps.clock, outcome.error);
      return this.#callSomewhere(claim.server, request, exchange);
    });
  }

  #serveMine(claim: Claim, request: Message, exchange: Exchange): Promise<Served> {
    const called = this.#callOwned(claim, request, exchange);
    if (claim.serving > 0) return called;
    return called.then(async (outcome) => {
      // If the start fails for this client only, the reason helps more than a retry on another node.
      const why = await this.#releaseUnstarted(claim, outcome, exchange, null);
      return why === null ? outcome : elsewhere(why);
    });
  }

  /**
   * Releases the claim if its process could not be started; with `triedFor`, also if only the start for that client failed.
   * Returns why another node should serve the call; null if the claim stays.
   */
  async #releaseUnstarted(
    claim: Claim,
    outcome: Outcome,
    exchange: Exchange,
    triedFor: ClientProfile | null,
  ): Promise<string | null> {
    if (exchange.cancelled !== null || !didNotStart(outcome)) return null;
    const { local } = this.#parts.deps;
    const { owned, handover } = this.#parts.servers;
    const { claims } = owned;
    const { server, client, processes } = claim;
    if (!claims.holds(claim) || handover.isBarred(claim)) return `what it owned of ${server} is to be another node's`;
    // `OwnServers` decides when this node gives up a singleton.
    if (client === null || processes > 0) return null;
    // The process limit does not depend on the client.
    const tried = isCapacityFailure(outcome) ? client : triedFor;
    if (!this.#canFallBack(server, outcome, exchange, tried)) return null;
    await claims.giveUp(claim, local.handOver(server, client));
    return notStarted(server).message;
  }

  #callHere(place: Place, request: Message, exchange: Exchange, by = this.#parts.deps.bus.peer): Promise<Outcome> {
    const { local, bus } = this.#parts.deps;
    const server = place.server.name;
    if (place.process && mayGiveState(request)) {
      return local.call(server, withoutNode(request), exchange).then((outcome) => withNode(outcome, bus.peer));
    }
    if (!isSubscriptionRequest(request)) return local.call(server, request, exchange);
    const key = local.sessionKey(server, exchange.client);
    const pass = (): Promise<Outcome> => local.call(server, request, exchange);
    return this.#watches.run(server, key, exchange.client, by, request, pass);
  }

  #callOwned(claim: Claim, request: Message, exchange: Exchange): Promise<Outcome> {
    const { local } = this.#parts.deps;
    return this.#parts.servers.owned.run(claim, local.call(claim.server, request, exchange), isListen(request));
  }

  #callSomewhere(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    exchange.searchStartedAt ??= this.#parts.deps.clock.now();
    return this.#try(server, request, exchange);
  }

  #try(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    try {
      return this.#passOn(server, request, exchange);
    } catch (error) {
      return notPassedOn(error);
    }
  }

  #passOn(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    const place = this.#parts.known.place(server);
    if (place === undefined) return this.#parts.deps.local.call(server, request, exchange);
    const { client, cancelled } = exchange;
    if (cancelled !== null) return Promise.resolve(failure(cancelledBeforeSend(server, cancelled)));
    if (place.lost !== null) return this.#tryAgain(server, request, exchange, whyLost(place.lost, this.reached));
    const key = claimKey(place, client, this.#lists);
    if (key === null) {
      if (this.#servesHere(place, request, client)) return this.#callHere(place, request, exchange);
      return this.#callForeign(this.#instead(place), affinity(place, client, this.#lists), null, request, exchange);
    }
    const mine = this.#parts.servers.mine(place, key);
    if (mine !== null) return this.#callMine(mine, request, exchange);
    if (this.#parts.servers.ending(place, key)) return this.#tryAgain(server, request, exchange, ENDING);
    if (this.#instances.known(place, key) !== null) return this.#callForeign(place, key, null, request, exchange);
    return this.#callOwner(place, key, request, exchange);
  }

  async #tryAgain(server: string, request: Message, exchange: Exchange, why: string): Promise<Outcome> {
    const { clock } = this.#parts.deps;
    const place = this.#parts.known.place(server);
    const timeoutMs = deadlineOf(place, request, exchange);
    const now = clock.now();
    exchange.searchStartedAt ??= now;
    // Without a deadline, time spent on attempts counts too: slow instances must not prolong the search forever.
    const triedMs = timeoutMs > 0 ? (exchange.triedMs ?? 0) : 0;
    const soughtMs = now - Math.min(exchange.searchStartedAt + triedMs, this.#awaitedSince(place));
    const late = timeoutMs > 0 && Math.max(soughtMs, now - exchange.searchStartedAt) >= timeoutMs;
    if (late || soughtMs >= PLACE_MS)
      return failure(new GatewayError('NOT_SENT', `no node serves ${server}: ${why}`, { server }));
    const attempts = failedAttempt(exchange, clock, { outcome: 'NOT_SENT', message: why });
    await pause(clock, PAUSE_MS);
    attempts.begins(clock.turnNow());
    return this.#try(server, request, exchange);
  }

  #awaitedSince(place: Place | undefined): number {
    const lost = place?.lost ?? null;
    if (lost === null) return Number.POSITIVE_INFINITY;
    return this.reached ? lost.awaitedSince : Number.NEGATIVE_INFINITY;
  }

  async #callOwner(place: Place, key: string, request: Message, exchange: Exchange): Promise<Outcome> {
    try {
      const asked = this.#parts.servers.ownerOf(place, key, exchange.client);
      const owner = await inTime(asked, place, request, exchange, this.#parts.deps.clock);
      if (exchange.cancelled !== null) return failure(cancelledBeforeSend(place.server.name, exchange.cancelled));
      if (owner?.kind === 'mine') return await this.#callMine(owner.claim, request, exchange);
      return await this.#callForeign(place, key, owner, request, exchange);
    } catch (error) {
      return notPassedOn(error);
    }
  }

  /** Sends the call to the instance that has the key, otherwise to one with room. */
  #callForeign(
    place: Place,
    key: string | null,
    owner: Owner | null,
    request: Message,
    exchange: Exchange,
  ): Promise<Outcome> {
    const { clock, random } = this.#parts.deps;
    const { name } = place.server;
    let instance: RemoteInstance | null;
    let epoch: string | null = null;
    const theirs = owner?.kind === 'theirs' ? owner : null;
    const owning = theirs === null ? undefined : place.otherInstances.find(({ node }) => node.peer === theirs.peer);
    if (owning !== undefined) {
      instance = owning;
      epoch = theirs!.epoch;
    } else if (theirs !== null && place.here && !this.#parts.servers.yields(place, key!, exchange.client)) {
      return this.#tryAgain(name, request, exchange, `its owner ${theirs.node} is gone, but its lease has not expired`);
    } else {
      const known = key === null ? null : this.#instances.known(place, key);
      // The chosen instance takes over the key if its owner is dead.
      instance =
        this.#instanceOfState(place, request) ??
        this.shared.elsewhere(place, exchange.client) ??
        known?.instance ??
        pickInstance(name, place.otherInstances, () => random.unit());
      epoch = known?.epoch ?? null;
      if (instance === null) return this.#tryAgain(name, request, exchange, 'no node that has it can be reached');
    }
    if (key !== null) this.#instances.remember(name, key, instance.node.peer, epoch);
    const askedAt = clock.now();
    const waitedMs = askedAt - (exchange.searchStartedAt ?? askedAt);
    this.sentElsewhere++;
    exchange.servedBy = instance.node.id;
    const timeoutMs = deadlineOf(place, request, exchange);
    return this.#remote.run(instance.node, name, request, exchange, epoch, waitedMs, timeoutMs).then((tried) => {
      if (tried.kind === 'elsewhere') {
        const owns = epoch !== null && instance.node.state === 'ready';
        if (key !== null && !(tried.undelivered === true && owns)) this.#instances.forget(name, key);
        addTriedTime(exchange, askedAt, clock);
        return this.#tryAgain(name, request, exchange, `node ${instance.node.id}: ${tried.reason}`);
      }
      if (tried.attempts !== null)
        (exchange.attempts ??= new CallAttempts()).addRemote(askedAt, instance.node.id, tried.attempts);
      if (tried.outcome.kind === 'answer') this.#catalogs.learn(name, exchange.client, tried.key, tried.own);
      return tried.outcome;
    });
  }

  #instanceOfState(place: Place, request: Message): RemoteInstance | null {
    const peer = place.process ? nodeOfState(request) : null;
    return peer === null ? null : (place.otherInstances.find(({ node }) => node.peer === peer) ?? null);
  }
}
