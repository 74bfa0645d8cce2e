import type { UpstreamEvents } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import { ThrottledTask } from '../model/throttled-task.ts';
import type { Served } from './calls/attempts.ts';
import { type PublicCalls, ServedCalls } from './calls/served-calls.ts';
import type { ClusterParts, Regained, ThisNode } from './cluster-deps.ts';
import { ClusterUpstreams } from './cluster-upstreams.ts';
import { LoopWatch } from './lease/loop-watch.ts';
import { NodeLease } from './lease/node-lease.ts';
import { OwnNode } from './lease/own-node.ts';
import { Lifetime } from './lifetime.ts';
import { Advertisements } from './nodes/advertisements.ts';
import { ConsumerNodes } from './nodes/consumer-nodes.ts';
import { KnownServers } from './nodes/known-servers.ts';
import { LEASE_MS, LEASES, STOP_MS } from './nodes/lease-record.ts';
import { LostInstances } from './nodes/lost-instances.ts';
import type { NodeState, NodeView } from './nodes/node-state.ts';
import { Nodes, PROTOCOLS } from './nodes/nodes.ts';
import { OwnAdvertisement } from './nodes/own-advertisement.ts';
import { Witnesses } from './nodes/witnesses.ts';
import { Claims } from './ownership/claims.ts';
import type { Claim } from './ownership/own-claims.ts';
import { OwnServers } from './ownership/own-servers.ts';
import { OwnedCalls } from './ownership/owned-calls.ts';
import { ProcessOwnership } from './ownership/process-ownership.ts';
import { ClientsElsewhere } from './streams/clients-elsewhere.ts';
import { RelayedEvents } from './streams/relayed-events.ts';
import { SideMessages, type SideReceiver } from './streams/side-messages.ts';
import { StreamRouter } from './streams/stream-router.ts';
import { ClusterUpstreamSessions } from './upstream-sessions/cluster-upstream-sessions.ts';

const CLAIMS = 'trunkline_claims';
/** How long a lost node still gets the notifications of the servers that its clients used. */
const FORGET_MS = 60_000;

/** Events that the cluster reports to the rest of the gateway. */
export interface ClusterListener {
  /** A server was added, removed or redefined, at any node. */
  serversChanged?(): void;
  /** A node was found or lost, or the state of a node (also of this one) changed. */
  nodesChanged?(): void;
  /** An operator drains this node. */
  drainAsked?(): void;
  /** This node serves a public call for the node `by`, answered at `reply`; the returned function takes its outcome. */
  publicCall?(reply: string, server: string, by: string): (outcome: Served) => void;
}

/** This node's part in the cluster. */
export class Cluster implements ThisNode, SideReceiver, PublicCalls {
  readonly upstreams: ClusterUpstreams;
  readonly events: UpstreamEvents;
  readonly ownership: ProcessOwnership;
  readonly upstreamSessions: ClusterUpstreamSessions;
  readonly streams: StreamRouter;
  readonly clients: ClientsElsewhere;
  readonly peers: Nodes;
  readonly known: KnownServers;
  readonly loop: LoopWatch;
  readonly #deps: ClusterParts;
  readonly #lifetime: Lifetime;
  readonly #startedAt: number;
  readonly #listeners: ClusterListener[] = [];
  readonly #updating: ThrottledTask;
  readonly #lease: NodeLease;
  readonly #self: OwnNode;
  readonly #own: OwnAdvertisement;
  readonly #advertisements: Advertisements;
  readonly #lost: LostInstances;
  readonly #owned: OwnedCalls;
  readonly #servers: OwnServers;
  readonly #messages: SideMessages;
  readonly #consumers = new ConsumerNodes();
  readonly #served: ServedCalls;

  constructor(parts: ClusterParts) {
    const { bus, clock } = (this.#lifetime = new Lifetime(parts.bus, parts.clock));
    const deps: ClusterParts = Object.create(parts, { bus: { value: bus }, clock: { value: clock } });
    const { state } = deps;
    const leases = state.bucket(LEASES, { ttlMs: LEASE_MS });
    const claimed = state.bucket(CLAIMS, { ttlMs: 0 });
    this.#deps = deps;
    this.#startedAt = clock.wall();
    this.#updating = new ThrottledTask(clock, () => this.#update());
    this.loop = new LoopWatch(deps);
    const witnesses = new Witnesses(deps, leases);
    this.#lease = new NodeLease(deps, leases, witnesses, this);
    this.#self = new OwnNode(deps, this.#lease, claimed, this);
    this.peers = new Nodes(deps, witnesses, this);
    this.#own = new OwnAdvertisement(deps, this.peers, this);
    this.#advertisements = new Advertisements(deps, this.peers, this.#own, this);
    this.#lost = new LostInstances(clock, this);
    this.known = new KnownServers(deps, this.#own, this.peers, this.#advertisements, this.#lost);
    this.#messages = new SideMessages(deps);
    this.events = new RelayedEvents(deps.events, this.#consumers, this.#messages, this.known, this.#own);
    const claims = new Claims({ deps, store: claimed, leases, lease: this.#lease, nodes: this.peers }, this);
    this.#owned = new OwnedCalls(claims, clock);
    this.#servers = new OwnServers(deps, this.#self, this.known, this.#owned, this.events);
    this.streams = new StreamRouter(this.#messages, this.peers, deps);
    this.clients = new ClientsElsewhere(deps, this.peers, leases, this.streams);
    this.upstreams = new ClusterUpstreams({
      deps,
      events: this.events,
      self: this.#self,
      known: this.known,
      servers: this.#servers,
      advertisements: this.#advertisements,
      own: this.#own,
      messages: this.#messages,
      consumers: this.#consumers,
    });
    this.#served = new ServedCalls(deps, this.#self, this.upstreams.calls, this.#consumers, this);
    this.ownership = new ProcessOwnership(claims, this.#self, bus.peer);
    this.upstreamSessions = new ClusterUpstreamSessions(deps, claims, this.#self, this.peers, this.known);
    this.#messages.receive(this.streams, this);
  }

  listen(listener: ClusterListener): void {
    this.#listeners.push(listener);
  }

  get state(): NodeState {
    return this.#self.state;
  }

  /** Why load balancers should not send new calls to this node; null if they may. */
  get notReady(): string | null {
    return this.#self.notReady ?? this.upstreams.initialSync.notReady;
  }

  /** Why this node serves only calls that need no owner; null if it serves all calls. */
  get noLeaseReason(): string | null {
    return this.#self.noLeaseReason;
  }

  /** Restrictions that callers may notice, even while the node is ready. */
  get degraded(): readonly string[] {
    return this.#self.degraded;
  }

  async apply(servers: ReadonlyMap<string, Server>): Promise<void> {
    this.known.changed(this.#own.replace(servers.values()));
    const replaced = this.#servers.replace(servers);
    this.#updating.run();
    await replaced;
  }

  start(): void {
    this.loop.start(this.#deps.watchLoop ?? true);
    this.peers.start();
    this.#lease.start();
    void this.#self.watch(this.peers);
    this.#owned.start();
    this.upstreams.initialSync.begin(this.#updating);
  }

  /** Waits at most `waitMs` for the lease, then for the first reading, at most until 5 s after the start. */
  async joined(waitMs: number): Promise<void> {
    await this.#self.joined(waitMs);
    await this.upstreams.initialSync.started;
  }

  /** Accepts no new work. Serves owned processes until they are handed over, or until `close`. */
  drain(): void {
    if (this.#self.draining) return;
    this.#self.drain();
    this.upstreamSessions.streams.drain();
    this.peers.sendHeartbeat();
    this.#notifyNodesChanged();
  }

  /** Number of calls from other nodes and of claims being handed over. */
  get inFlight(): number {
    return this.#served.inFlight + this.#servers.handover.inFlight;
  }

  handOver(): void {
    this.#servers.handover.begin();
  }

  /** The claims that this node holds. */
  get owned(): readonly Claim[] {
    return this.#owned.claims.all();
  }

  /** Counters start with the process. */
  get figures() {
    return {
      /** Milliseconds since the last acknowledged renewal was sent; null without a lease. */
      leaseAgeMs: this.#lease.ageMs,
      owned: this.#owned.claims.size,
      takenOver: this.#owned.claims.takenOver,
      servedForOthers: this.#served.count,
      servedByOthers: this.upstreams.calls.sentElsewhere,
    };
  }

  /** Drains the node with this name or peer id; false if there is none. Rejects with GatewayError if it does not answer. */
  async drainNode(id: string): Promise<boolean> {
    const node = this.peers.get(id) ?? this.peers.named(id);
    const isThis = id === this.#deps.node || id === this.#deps.bus.peer;
    if (isThis) this.drainAsked();
    else if (node !== null) await this.#messages.drain(node.peer);
    return isThis || node !== null;
  }

  get view(): NodeView {
    const { node, bus, version, addresses = [] } = this.#deps;
    const crowded = this.#servers.full;
    const unready = this.#self.unready || this.upstreams.initialSync.notReady !== null;
    return {
      id: node,
      peer: bus.peer,
      state: this.state,
      protocols: PROTOCOLS,
      version,
      epoch: this.#self.epoch,
      offer: this.#own.version,
      load: this.#served.load,
      busy: this.#servers.busy,
      owned: this.#owned.claims.size,
      publicCalls: this.#listeners.some(({ publicCall }) => publicCall !== undefined),
      ...(crowded.full.length === 0 ? {} : crowded),
      ...(unready ? { unready } : {}),
      ...(addresses.length === 0 ? {} : { addresses }),
      startedAt: this.#startedAt,
    };
  }

  async leaseRegained(how: Regained): Promise<void> {
    await this.#owned.claims.regained(how);
  }

  leaseHeld(how: Regained): void {
    this.#self.held();
    this.#deps.logger.info('node_lease_held', { epoch: this.#self.epoch, how });
    this.peers.sendHeartbeat();
    this.#servers.look();
    this.ownership.held();
    this.upstreamSessions.streams.regained();
    this.#notifyNodesChanged();
  }

  /**
   * After a pause of this process, other nodes may own its claims: it abandons them and ends their processes. If only the store
   * is unreachable, it keeps claims and processes, and ends the calls.
   */
  leaseOver(): void {
    const { claims } = this.#owned;
    const paused = this.loop.wasStalled(STOP_MS);
    this.#deps.logger.error('node_fenced', { paused, owned: claims.size });
    this.#owned.fence(() => true);
    this.upstreamSessions.streams.fenced();
    if (paused) for (const claim of claims.abandon()) this.claimLost(claim);
    this.peers.sendHeartbeat();
    this.#notifyNodesChanged();
  }

  claimLost(claim: Claim): void {
    if (this.upstreamSessions.streams.lost(claim)) {
      this.#owned.claims.disown(claim);
      return;
    }
    this.#owned.fence((one) => one === claim);
    this.#servers.lost(claim);
  }

  nodesChanged(): void {
    this.#advertisements.refresh();
    this.streams.announceToNewNodes();
    if (this.#lost.any) this.serversChanged();
    this.#notifyNodesChanged();
  }

  nodeGone(gone: NodeView, left: boolean): void {
    const { peer } = gone;
    const had = this.#advertisements.of(peer);
    this.#lost.add(gone, had, left);
    this.known.changed(had?.keys() ?? [], peer);
    // Before the routing table is updated, because it looks up which clients the node served.
    if (!left) this.upstreams.nodeSilent(peer);
    this.#consumers.lost(peer);
    // Perhaps only this node lost it, and the node does not announce its clients again.
    this.#deps.clock.after(left ? 0 : FORGET_MS, () => {
      if (this.peers.get(peer) === null) this.#consumers.forget(peer);
    });
    this.clients.subscriptions.nodeGone(peer);
    this.upstreams.calls.gone(peer);
    this.#servers.look();
    this.upstreamSessions.streams.gone(peer);
    // After a pause this node loses all other nodes in one check: update once for all of them.
    this.#updating.scheduleThisTurn();
  }

  nodeChanged({ peer, state }: NodeView): void {
    // From now on this node reads the lists of those servers at another node.
    if (state === 'draining') this.serversChanged(this.#advertisements.of(peer)?.keys());
    this.#notifyNodesChanged();
  }

  #notifyNodesChanged(): void {
    for (const listener of this.#listeners) listener.nodesChanged?.();
  }

  nodeLeaves(gone: NodeView): void {
    this.#lost.leaves(gone);
  }

  rejoined(): void {
    this.upstreams.calls.renew();
    this.#lost.awaitAllAgain();
  }

  stalled(): void {
    this.rejoined();
    this.streams.announceAgain();
  }

  messagesMissed(): void {
    this.peers.sendView();
    this.streams.resync();
    this.#advertisements.refresh();
    this.upstreamSessions.reconnected();
  }

  serversChanged(servers: Iterable<string> = [], peer: string | null = null): void {
    this.known.changed(servers, peer);
    this.#updating.schedule();
  }

  serversNeeded(): void {
    if (this.#updating.pending) this.#updating.run();
  }

  #update(): void {
    const { servers, definitionsChanged } = this.known.update();
    this.upstreams.refresh(servers);
    if (definitionsChanged) for (const listener of this.#listeners) listener.serversChanged?.();
  }

  offerChanged(node: NodeView): void {
    this.#advertisements.look(node);
  }

  released(sessionId: string): void {
    this.upstreams.released(sessionId);
  }

  drainAsked(): void {
    for (const listener of this.#listeners) listener.drainAsked?.();
  }

  publicCall(reply: string, server: string, by: string): ((outcome: Served) => void) | null {
    return this.#listeners.find(({ publicCall }) => publicCall)?.publicCall?.(reply, server, by) ?? null;
  }

  /** Called after the servers of this node have stopped, so that other nodes can take over its claims at once. */
  async close(): Promise<void> {
    this.upstreams.initialSync.close();
    this.#self.drain();
    await this.#servers.handover.close();
    await this.#lease.close();
    await this.#served.close();
    await this.clients.close();
    this.peers.close();
    this.#lifetime.close();
    await this.loop.close();
  }
}
