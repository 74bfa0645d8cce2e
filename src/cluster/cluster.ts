import type { Message } from '../model/message.ts';
import type { Ownership, UpstreamEvents, Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import { type Served, ServedCalls } from './calls/served-calls.ts';
import type { ClusterDeps, LocalUpstreams, NodeReport } from './cluster-deps.ts';
import { type ClusterFigures, figuresOf, nodeReports } from './cluster-report.ts';
import { ClusterUpstreams } from './cluster-upstreams.ts';
import { FORGETS, headOf } from './frames/frame.ts';
import { LazyBucket } from './lazy-bucket.ts';
import { KeepingUp } from './lease/keeping-up.ts';
import { LoopWatch } from './lease/loop-watch.ts';
import { LEASE_MS, NodeLease } from './lease/node-lease.ts';
import { OwnNode } from './lease/own-node.ts';
import { Advertisements } from './nodes/advertisements.ts';
import { ForeignCatalogs } from './nodes/foreign-catalogs.ts';
import { KnownServers } from './nodes/known-servers.ts';
import { ListsElsewhere } from './nodes/lists-elsewhere.ts';
import { LostInstances } from './nodes/lost-instances.ts';
import { type NodeState, notReadyBecause } from './nodes/node-state.ts';
import { Nodes } from './nodes/nodes.ts';
import { OwnAdvertisement } from './nodes/own-advertisement.ts';
import type { RoutingTable } from './nodes/routing-table.ts';
import { Claims } from './ownership/claims.ts';
import { HandingOver } from './ownership/handing-over.ts';
import { IdleClaims } from './ownership/idle-claims.ts';
import { OwnServers } from './ownership/own-servers.ts';
import { OwnedCalls } from './ownership/owned-calls.ts';
import { ProcessOwnership } from './ownership/process-ownership.ts';
import { ClientsElsewhere } from './streams/clients-elsewhere.ts';
import { RelayedEvents } from './streams/relayed-events.ts';
import { type Side, SideMessages } from './streams/side-messages.ts';
import { SpreadStreams } from './streams/spread-streams.ts';
import { Users } from './streams/users.ts';
import { UnderLease } from './under-lease.ts';
import { ClusterUpstreamSessions } from './upstream-sessions/cluster-upstream-sessions.ts';

const LEASES = 'trunkline_leases';
const CLAIMS = 'trunkline_claims';

/** This node's part in the cluster: what it knows of the others, what it owns, what it does for them. */
export class Cluster {
  readonly upstreams: Upstreams;
  readonly events: UpstreamEvents;
  readonly ownership: Ownership;
  readonly upstreamSessions: ClusterUpstreamSessions;
  readonly streams: SpreadStreams;
  readonly clients: ClientsElsewhere;
  readonly neighbours: Nodes;
  readonly loop: LoopWatch;
  readonly handingOver: HandingOver;
  /** The set of servers is another one, wherever they are. */
  onServersChanged: (() => void) | null = null;
  /** A client of one of our sessions sent this to another node. */
  onClientMessage: ((sessionId: string, message: Message) => void) | null = null;
  /** A public call, answered at `reply`, runs here for the node `by`; what is returned hears the end. Null: none are served. */
  onPublicCall: ((reply: string, server: string, by: string) => (outcome: Served) => void) | null = null;
  /** Somebody wants this node to drain and end. */
  onDrainAsked: (() => void) | null = null;
  readonly #deps: ClusterDeps;
  readonly #offer: OwnAdvertisement;
  readonly #advertisements: Advertisements;
  readonly #lostInstances: LostInstances;
  readonly #known: KnownServers;
  readonly #lease: NodeLease;
  readonly #claims: Claims;
  readonly #owned: OwnedCalls;
  readonly #idleClaims: IdleClaims;
  readonly #catalogs: ForeignCatalogs;
  readonly #lists: ListsElsewhere;
  readonly #messages: SideMessages;
  readonly #served: ServedCalls;
  readonly #servers: OwnServers;
  readonly #router: ClusterUpstreams;
  readonly #users = new Users();
  readonly #keepingUp: KeepingUp;
  readonly #self: OwnNode;
  readonly #underLease: UnderLease;

  /** `local` is not asked before `apply`. */
  constructor(deps: ClusterDeps, local: () => LocalUpstreams) {
    const { bus, clock, logger, node, key, previousKeys = [] } = deps;
    this.#deps = deps;
    this.loop = new LoopWatch(clock, logger);
    const leases = new LazyBucket(deps.state, LEASES, { ttlMs: LEASE_MS });
    this.#lease = new NodeLease({
      store: leases,
      clock,
      logger,
      peer: bus.peer,
      node,
      serveOn: () => deps.onBusLoss === 'serve' && bus.status.state !== 'connected',
      over: () => this.#underLease.fenced(),
      regained: (how) => this.#underLease.regained(how),
    });
    this.#self = new OwnNode({
      ...deps,
      peer: bus.peer,
      lease: this.#lease,
      incarnation: () => this.#claims.incarnation,
      offer: () => this.#offer.version,
      load: () => this.#served.load,
      full: () => this.#servers.full,
      busy: () => this.#servers.busy,
      publicCalls: () => this.onPublicCall !== null,
    });
    this.#claims = new Claims({
      store: new LazyBucket(deps.state, CLAIMS, { ttlMs: 0 }),
      leases,
      clock,
      logger,
      node,
      peer: bus.peer,
      lease: () => this.#lease,
      lost: (claim) => this.#underLease.lost(claim),
      sweeps: () => this.neighbours.first(FORGETS),
    });
    this.#owned = new OwnedCalls(this.#claims, clock);
    this.#idleClaims = new IdleClaims(this.#owned, clock);
    this.handingOver = new HandingOver({
      ...deps,
      owned: this.#owned,
      readyElsewhere: (server) => this.#known.readyElsewhere(server),
      end: (claim) => this.#servers.handOver(claim),
      served: () => this.#served.inFlight,
    });
    this.#offer = new OwnAdvertisement({
      clock,
      keys: [key, ...previousKeys],
      status: (server) => local().status(server),
      ownLists: (server) => local().ownLists(server),
      changed: () => this.neighbours.tell(),
    });
    this.neighbours = new Nodes({
      bus,
      clock,
      logger,
      self: () => this.#self.view,
      changed: () => {
        this.#advertisements.refresh();
        this.streams.met();
        this.#rebuild();
      },
      gone: (gone, left) => {
        const { peer } = gone;
        this.#lostInstances.add(gone, this.#advertisements.of(peer), left);
        // Before anything else forgets the node: this asks who was served there.
        if (!left) this.#router.nodeSilent(peer);
        this.#users.forgetPeer(peer);
        this.streams.gone(peer);
        this.clients.gone(peer);
        this.#router.calls.gone(peer);
        this.#servers.look();
        this.upstreamSessions.streams.gone(peer);
      },
      leaves: (gone) => this.#lostInstances.leaves(gone),
      absent: () => this.#backAgain(),
    });
    this.#advertisements = new Advertisements({
      bus,
      clock,
      nodes: this.neighbours,
      logger,
      own: () => this.#offer.text(),
      changed: () => this.#rebuild(),
    });
    this.#lostInstances = new LostInstances({ clock, changed: () => this.#rebuild() });
    this.#known = new KnownServers({
      self: () => this.#self.view,
      logger,
      own: this.#offer,
      others: () => [...this.neighbours.others()].map((other) => [other, this.#advertisements.of(other.peer)] as const),
      lostInstances: this.#lostInstances,
      instancesGained: (servers) => deps.events.instancesGained?.(servers),
    });
    this.streams = new SpreadStreams({
      messages: () => this.#messages,
      others: () => [...this.neighbours.others()].map(({ peer }) => peer),
    });
    this.clients = new ClientsElsewhere({ ...deps, nodes: () => this.neighbours, leases });
    const relayed = new RelayedEvents({
      here: deps.events,
      users: this.#users,
      messages: () => this.#messages,
      instances: (server) => this.#known.instances(server),
      catalogChanged: (server, own) => (own ? this.#offer.statusChanged() : this.#offer.catalogChanged(server)),
      relisted: (server) => this.#offer.relisted(server),
      statusChanged: () => this.#offer.statusChanged(),
    });
    this.events = relayed;
    this.#messages = new SideMessages(bus, logger, {
      notify: (server, notification, client) => local().notify(server, notification, client),
      release: (sessionId) => this.#router.released(sessionId),
      notification: (server, sessionId, message, itsKey) =>
        deps.events.notification(server, sessionId, message, itsKey),
      outdated: (server, message) => deps.events.outdated(server, message),
      stateLost: (server, sessionId, cause) => deps.events.stateLost(server, sessionId, cause),
      connectionChanged: (server, itsKey, change) => deps.events.connectionChanged(server, itsKey, change),
      request: (server, sessionId, message, itsKey) => deps.events.request(server, sessionId, message, itsKey),
      restart: (server) => local().restart(server),
      stream: (sessionId, at) => this.streams.openedAt(sessionId, at),
      deliver: (sessionId, message, server) => this.streams.deliverHere(sessionId, message, server),
      askClient: (sessionId, message, server) => this.streams.askHere(sessionId, message, server),
      client: (sessionId, message) => this.onClientMessage?.(sessionId, message),
      drain: () => this.onDrainAsked?.(),
    });
    this.#servers = new OwnServers({
      clock,
      logger,
      claims: this.#claims,
      local,
      able: () => this.#self.able,
      readyElsewhere: (server) => this.#known.readyElsewhere(server),
      barred: (claim) => this.handingOver.isBarred(claim),
      giveUp: (claim) => this.handingOver.giveUp(claim),
    });
    this.#catalogs = new ForeignCatalogs({
      bus,
      logger,
      local,
      used: (server, client, by) => this.#users.used(server, client, by),
      shown: (server, client) => this.#router.knownCatalog(server, client),
      changed: (server, fingerprint, lists) => deps.events.catalogChanged(server, fingerprint, lists),
    });
    this.#lists = new ListsElsewhere({
      local,
      clock,
      hear: (peers) => this.#advertisements.readNow(peers),
      instanceOf: (server) => this.#router.instanceOf(server),
      read: (instance, client) => this.#catalogs.readNow(instance, client),
      ask: (instance, client, known) => this.#catalogs.knownThere(instance, client, known),
      readOwn: (instance, itsKey) => this.#catalogs.ownLists(instance, itsKey),
      known: (server, client) => this.#router.knownCatalog(server, client),
      changed: (...change) => deps.events.catalogChanged(...change),
      listed: (server) => deps.events.listedElsewhere?.(server),
    });
    this.#router = new ClusterUpstreams({
      ...deps,
      get local() {
        return local();
      },
      claims: this.#claims,
      owned: this.#owned,
      catalogs: this.#catalogs,
      lists: this.#lists,
      messages: this.#messages,
      hear: (peers) => this.#advertisements.readNow(peers),
      routingTable: () => this.#known.routingTable,
      draining: () => this.#self.draining,
      claimed: (claim) => this.#servers.claimed(claim),
      leaving: (server) => this.#servers.leaving(server),
      yields: (...asked) => this.#servers.yields(...asked),
      barred: (claim) => this.handingOver.isBarred(claim),
      events: relayed,
    });
    this.upstreams = this.#router;
    this.#served = new ServedCalls({
      bus,
      clock,
      nodeEpoch: () => this.#self.epoch,
      run: (...call) => this.#router.calls.serve(...call),
      connection: (server, client) => ({
        key: local().sessionKey(server, client),
        own: local().ownsConnection(server, client),
      }),
      used: (server, client, by) => this.#users.used(server, client, by),
      publicCall: (...call) => this.onPublicCall?.(...call) ?? null,
    });
    this.ownership = new ProcessOwnership(this.#claims, () => this.#self.epoch, bus.peer);
    this.upstreamSessions = new ClusterUpstreamSessions({
      ...deps,
      claims: this.#claims,
      able: () => this.#self.able,
      there: (peer) => this.neighbours.get(peer) !== null,
      hasOtherInstances: (server) => this.#known.instances(server).length > 0,
    });
    this.#underLease = new UnderLease({
      logger,
      loop: this.loop,
      self: this.#self,
      owned: this.#owned,
      servers: this.#servers,
      streams: this.upstreamSessions.streams,
      tell: () => this.neighbours.tell(),
    });
    this.#keepingUp = new KeepingUp(bus, clock, (absent) => {
      if (absent) this.#backAgain();
      this.neighbours.tell();
      this.streams.tellAgain();
      this.#advertisements.refresh();
      this.upstreamSessions.reconnected();
    });
  }

  get state(): NodeState {
    return this.#self.state;
  }

  /** Why this node should get no new calls from outside; null when it may. */
  get notReady(): string | null {
    return notReadyBecause(this.state, this.#lease.failure) ?? this.#keepingUp.notReady;
  }

  /** The definitions of this node's own files. */
  async apply(servers: ReadonlyMap<string, Server>): Promise<void> {
    this.#offer.replace(servers.values());
    const replaced = this.#servers.replace(servers);
    this.#rebuild();
    await replaced;
  }

  start(): void {
    this.loop.start(this.#deps.watchLoop ?? true);
    this.neighbours.start();
    this.#lease.start();
    this.#idleClaims.start();
  }

  /** Resolves when this node has its lease, at the latest after `waitMs`. */
  joined(waitMs: number): Promise<void> {
    return this.#self.joined(waitMs);
  }

  /** Takes nothing new from now on; what is owned is served until it is handed over, or until `close`. */
  drain(): void {
    if (this.#self.draining) return;
    this.#self.drain();
    this.upstreamSessions.streams.drain();
    this.neighbours.tell();
  }

  nodes(): readonly NodeReport[] {
    return nodeReports(this.#self.view, this.#offer, this.neighbours, this.#advertisements);
  }

  get figures(): ClusterFigures {
    return figuresOf(this.#lease, this.#claims, this.#served, this.#router.calls);
  }

  /** To all other nodes: one of them may have in hand what the client means. */
  forward(sessionId: string, message: Message): void {
    const side: Side = { kind: 'client', sessionId, message: headOf(message) };
    for (const { peer } of this.neighbours.others()) this.#messages.tell(peer, side, message);
  }

  /** By its name, or by what it is called on the bus. False when there is none. Rejects with GatewayError when it is silent. */
  async drainNode(id: string): Promise<boolean> {
    const node = this.neighbours.get(id) ?? this.neighbours.named(id);
    if (id === this.#deps.node || id === this.#deps.bus.peer) this.onDrainAsked?.();
    else if (node === null) return false;
    else await this.#messages.drain(node.peer);
    return true;
  }

  get conflicts(): RoutingTable['conflicts'] {
    return this.#known.routingTable.conflicts;
  }

  /** What other nodes have. */
  get known(): Pick<KnownServers, 'server' | 'against' | 'instances'> {
    return this.#known;
  }

  /** After the servers of this node have ended: others may have at once what it owned. */
  async close(): Promise<void> {
    this.#self.drain();
    this.#keepingUp.close();
    this.#servers.close();
    this.#claims.close();
    this.#idleClaims.close();
    this.upstreamSessions.close();
    await this.handingOver.close();
    await this.#lease.close();
    await this.#served.close();
    this.clients.close();
    this.#catalogs.close();
    this.#messages.close();
    this.#router.calls.close();
    this.#advertisements.close();
    this.#offer.close();
    this.neighbours.close();
    this.#lostInstances.close();
    await this.loop.close();
  }

  /** Others may have taken this node for gone, and it could not hear who is there. */
  #backAgain(): void {
    this.#router.calls.renew();
    this.#lostInstances.awaitAllAnew();
  }

  #rebuild(): void {
    const changed = this.#known.rebuild();
    this.#lists.look(this.#known.routingTable.places);
    this.#catalogs.refresh(
      (server) => this.#router.instanceOf(server),
      (server) => this.#known.isLost(server),
    );
    if (changed) this.onServersChanged?.();
  }
}
