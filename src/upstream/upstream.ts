import { callerPartitionKey, definitionFor } from '../model/caller-partition.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { StateLoss } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { type ServerState, type ServerStatus, UP } from '../model/server-state.ts';
import { LISTEN } from '../protocol/methods.ts';
import { endSpan, spanOf, traceOf, withTrace } from '../protocol/trace-context.ts';
import { isExclusive } from './connection/session-key.ts';
import { Dispatcher } from './dispatcher.ts';
import { ErrorBoundary } from './error-boundary.ts';
import { ClientCatalogs } from './lists/client-catalogs.ts';
import { type RememberedCatalog, rememberedCatalogs } from './lists/server-catalogs.ts';
import type { Whose } from './server-context.ts';
import { ServerHistory } from './status/server-history.ts';
import type { CloseReason } from './transport/transport.ts';
import { type NodeShared, UpstreamParts } from './upstream-parts.ts';

/** `network.transport` of spans; null for a server in this process. */
const WIRES = { stdio: 'pipe', docker: 'pipe', http: 'tcp', sse: 'tcp', json: 'tcp', memory: null } as const;

/** One server on one node, behind its error boundary. */
export class Upstream {
  readonly parts: UpstreamParts;
  readonly boundary: ErrorBoundary;
  /** The upstream of the whole server; itself unless this is a partition. */
  readonly base: Upstream;
  /** The partitions of a server that separates its callers; null for others. */
  readonly partitions: CallerPartitions | null;
  readonly #dispatcher: Dispatcher;
  readonly #clientCatalogs: ClientCatalogs;
  #ended: Promise<unknown> = Promise.resolve();

  /** `base`: the upstream that this is a partition of; null for a whole server. */
  constructor(
    server: Server,
    node: NodeShared,
    history: ServerHistory,
    remembered: Iterable<RememberedCatalog>,
    base: Upstream | null = null,
  ) {
    this.base = base ?? this;
    this.partitions = base === null && server.callerSeparation !== undefined ? new CallerPartitions(this, node) : null;
    const parts = new UpstreamParts(server, node, history, remembered, this.base);
    this.parts = parts;
    this.#clientCatalogs = new ClientCatalogs(parts);
    this.#dispatcher = new Dispatcher(parts, this.#clientCatalogs, node.calls);
    this.boundary = new ErrorBoundary(server.name, parts.context.logger, parts.supervisor);
  }

  get server(): Server {
    return this.parts.context.server;
  }

  /** The definition, with `enabled` set to whether the server runs or may start; unchanged while that is unknown. */
  get effectiveDefinition(): Server {
    const { server } = this;
    const { state } = this.parts.supervisor;
    if (state === 'unknown' || state === 'stopping') return server;
    const enabled = state !== 'suspended';
    return server.enabled === enabled ? server : { ...server, enabled };
  }

  /** Applies settings that need no new connection. */
  update(server: Server): void {
    this.boundary.run(() => {
      const { context, connections, observer, supervisor, health } = this.parts;
      const { probeMs } = context.server;
      context.server = server;
      this.partitions?.update(server);
      connections.replicas.update();
      observer.notifyChange();
      if (server.probeMs !== probeMs && supervisor.up) health.beginProbing();
    }, nothing);
  }

  start(): Promise<void> {
    if (this.partitions !== null) this.partitions.halted = false;
    return this.#later(() => this.parts.supervisor.start());
  }

  /** Whether it is not started and no start is due. */
  get notStarted(): boolean {
    const { state, startingSince } = this.parts.supervisor;
    return state === 'unknown' && startingSince === null;
  }

  /** A suspended server starts when it is next needed. */
  wake(): Promise<void> {
    if (this.partitions !== null) this.partitions.halted = false;
    return this.#later(() => this.parts.supervisor.wake());
  }

  /** Stops it until `start` or `wake`. */
  stop(target: 'stopped' | 'suspended' = 'stopped'): Promise<void> {
    return this.#later(async () => {
      await Promise.all([this.parts.supervisor.stop(target), this.partitions?.halt()]);
    });
  }

  /** The status that the API shows: if the whole server is not up, that of the partition used last that is up. */
  status(): ServerStatus {
    const own = this.parts.observer.status();
    const side = own.initialized ? null : this.partitions?.up;
    return side == null ? own : { ...side.parts.observer.status(), history: own.history };
  }

  get state(): ServerState {
    const { state } = this.parts.supervisor;
    return UP.has(state) ? state : (this.partitions?.up?.state ?? state);
  }

  /** Whether it is starting, opens a connection, or has requests in flight. */
  get working(): boolean {
    const { supervisor, connections } = this.parts;
    return supervisor.state === 'starting' || connections.pool.opens || this.inFlight > 0;
  }

  /** Whether nothing is in flight and no connection belongs to one client. */
  get idle(): boolean {
    const own = this.parts.connections.pool.connections().some(({ busy, tenancy }) => busy || isExclusive(tenancy));
    return !this.working && !own;
  }

  /** Closes the connection with this label of `ConnectionStatus.key`. False if there is none. */
  closeConnection(label: string): boolean {
    return this.parts.connections.pool.closeLabelled(label);
  }

  restart(): Promise<void> {
    const { supervisor, connections } = this.parts;
    return this.#later(async () => {
      if (this.partitions !== null) this.partitions.halted = false;
      const sides = this.partitions?.all().map((side) => side.restart()) ?? [];
      const rolling = supervisor.up ? connections.replicas.restart() : null;
      if (rolling === null) connections.lost.clear();
      await Promise.all([...sides, rolling ?? supervisor.restart()]);
    });
  }

  /** As `Upstreams.call`, in a span of kind `client`, whose `traceparent` the server gets in `_meta` and as an HTTP header. */
  call(request: Message, exchange: Exchange): Promise<Outcome> {
    const { tracer } = this.parts.context.deps;
    if (tracer == null || request.method === LISTEN) return this.#call(request, exchange, null);
    const span = tracer.begin('client', exchange.trace === undefined ? null : traceOf(request));
    if (span === null) return this.#call(request, exchange, null);
    const { name, attributes } = spanOf(request);
    attributes['trunkline.server'] = this.server.name;
    const transport = WIRES[this.server.transport.type];
    if (transport !== null) attributes['network.transport'] = transport;
    const { traceparent } = span;
    return endSpan(span.describe(name, attributes), this.#call(withTrace(request, traceparent), exchange, traceparent));
  }

  #call(request: Message, exchange: Exchange, trace: string | null): Promise<Outcome> {
    return this.boundary.run(() => this.#dispatcher.call(request, exchange, trace), failed);
  }

  notify(notification: Message, client: ClientProfile): void {
    this.boundary.run(() => {
      const connection = this.parts.connections.ready(this.#scopeClient(client));
      if (connection === null || !isExclusive(connection.tenancy)) return;
      if (connection.era === notification.era) connection.notify(notification);
    }, nothing);
  }

  /** Whether the server cannot be started, or (if a client is given) this client's connection cannot be opened. */
  failing(client: ClientProfile | null): boolean {
    return this.parts.supervisor.failing || (client !== null && this.#dispatcher.failsFor(this.#scopeClient(client)));
  }

  get inFlight(): number {
    let calls = 0;
    for (const connection of this.parts.connections.pool.connections()) calls += connection.inFlight;
    for (const side of this.partitions?.all() ?? []) calls += side.inFlight;
    return calls;
  }

  /** Resolves when no call is in flight, at the latest after `deadlineMs`. */
  async drained(deadlineMs: number): Promise<void> {
    const sides = this.partitions?.all() ?? [];
    const { pool } = this.parts.connections;
    await Promise.all([pool.drained(deadlineMs), ...sides.map((side) => side.drained(deadlineMs))]);
  }

  knownCatalog(client: ClientProfile, orOthers: boolean): ServerCatalog | null {
    return this.#clientCatalogs.known(this.#scopeClient(client), orOthers);
  }

  catalog(client: ClientProfile, waitMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    return this.boundary.later(
      () => this.#clientCatalogs.get(this.#scopeClient(client), waitMs, amongOthers),
      () => null,
    );
  }

  /** As `UpstreamSet.relist`. */
  relist(): Promise<void> {
    const { supervisor, listRefresher } = this.parts;
    for (const side of this.partitions?.all() ?? []) void side.relist();
    return supervisor.up ? this.#later(() => listRefresher.onRemoteChange()) : Promise.resolve();
  }

  /** As `UpstreamSet.relistFor`. */
  relistFor(client: ClientProfile): Promise<void> {
    return this.parts.supervisor.up
      ? this.#later(() => this.#clientCatalogs.relist(this.#scopeClient(client)))
      : Promise.resolve();
  }

  /** As `Upstreams.awaitPendingLists`. */
  listed(client: ClientProfile): Promise<boolean> {
    const { connections, listRefresher } = this.parts;
    const seen = this.#scopeClient(client);
    const connection = connections.ready(seen);
    if (connection === null) return Promise.resolve(false);
    return this.boundary.later(
      () => listRefresher.settled(connection, connections.listedAs(seen)),
      () => false,
    );
  }

  owns(client: ClientProfile): boolean {
    const connection = this.parts.connections.ready(this.#scopeClient(client));
    return connection !== null && isExclusive(connection.tenancy);
  }

  /** As `Upstreams.sessionKey`. */
  sessionKey(client: ClientProfile): string | null {
    return this.parts.connections.keyOf(this.#scopeClient(client));
  }

  releaseSession(sessionId: string): void {
    this.boundary.run(() => {
      this.parts.released(sessionId);
      this.parts.connections.release(sessionId);
      for (const side of this.partitions?.all() ?? []) side.releaseSession(sessionId);
    }, nothing);
  }

  /** As `UpstreamSet.surrender`. */
  surrender(whose: Whose | null): Promise<void> {
    const { connections } = this.parts;
    return this.#later(async () => {
      const closed = whose === null ? this.close('remove') : null;
      await Promise.all([closed, connections.surrender(connections.keyFilter(whose), 'interrupt')]);
    });
  }

  /** As `UpstreamSet.handOver`. */
  handOver(whose: ClientProfile | null): Promise<void> {
    const { connections } = this.parts;
    return this.#later(async () => {
      const serving = connections.keyFilter(whose);
      const closed = whose === null ? this.close('remove') : null;
      const keys = [...connections.pool.keys()].filter(serving);
      const left = connections.surrender(serving, 'shutdown');
      // Clients that watch a resource over it subscribe again, over another connection.
      for (const key of keys) this.parts.ended(key);
      await Promise.all([closed, left]);
    });
  }

  sweep(): void {
    this.boundary.run(() => {
      this.parts.connections.pool.sweep();
      this.partitions?.sweep();
    }, nothing);
  }

  /** Closes it for good; in-flight calls get UNKNOWN. `why`: the cause that sessions with lost state receive. */
  close(how: CloseReason, why: StateLoss = 'restarted'): Promise<void> {
    const { connections, listRefresher, supervisor } = this.parts;
    return this.#later(async () => {
      this.parts.closeReason = how;
      listRefresher.close();
      if (how === 'remove') {
        for (const connection of connections.pool.connections()) this.parts.stateLost(connection, why);
        connections.replicas.abandonCalls(why);
      }
      const sides = this.partitions?.all() ?? [];
      this.#ended = Promise.all([this.#ended, supervisor.stop(), ...sides.map((side) => side.close(how, why))]);
      await this.#ended;
    });
  }

  #scopeClient(client: ClientProfile): ClientProfile {
    return this.parts.context.scopeClient(client);
  }

  #later(work: () => Promise<void>): Promise<void> {
    return this.boundary.later(work, nothing);
  }
}

function nothing(): void {}

function failed(error: GatewayError): Promise<Outcome> {
  return Promise.resolve(failure(error));
}

/** Maximum of partitions of one server; at the maximum, one is closed for each new one. */
const MAX_PARTITIONS = 1_024;

interface PartitionEntry {
  readonly upstream: Upstream;
  /** Id of the principal that the partition was created for. */
  readonly principal: string;
  usedAt: number;
}

/**
 * The partitions of a server that separates its callers: one per principal with its own credentials, and per set of
 * forwarded headers. Partitions share no connections, lists, answers or state.
 */
class CallerPartitions {
  readonly #base: Upstream;
  readonly #node: NodeShared;
  /** By the key that distinguishes the callers; least recently used first. */
  readonly #partitions = new Map<string, PartitionEntry>();
  /** The operator has stopped the server: no partition may start. */
  halted = false;

  constructor(base: Upstream, node: NodeShared) {
    this.#base = base;
    this.#node = node;
  }

  /** The partition that serves the client, created if needed; the whole server if nothing distinguishes the client. */
  of(client: ClientProfile): Upstream {
    const { server } = this.#base;
    const by = callerPartitionKey(server, client);
    if (by === '' || this.halted || !server.enabled || server.misconfigured !== undefined) return this.#base;
    const now = this.#node.deps.clock.now();
    const known = this.#partitions.get(by);
    if (known === undefined && this.#partitions.size >= MAX_PARTITIONS) this.#evictOne();
    const { id: principal } = client.principal;
    const partition = known ?? { upstream: this.#made(definitionFor(server, by)), principal, usedAt: now };
    partition.usedAt = now;
    this.#partitions.delete(by);
    this.#partitions.set(by, partition);
    return partition.upstream;
  }

  /** Closes the idle partition, least recently used, of the principal that has most: no principal can displace all others. */
  #evictOne(): void {
    const unused = [...this.#partitions.values()].filter(({ upstream }) => !upstream.working);
    const [most] = [...Map.groupBy(unused, ({ principal }) => principal).values()].sort((a, b) => b.length - a.length);
    if (most !== undefined) void this.#end((partition) => partition === most[0], 'room');
  }

  all(): readonly Upstream[] {
    return Array.from(this.#partitions.values(), ({ upstream }) => upstream);
  }

  /** The most recently used partition that is up; null if there is none. */
  get up(): Upstream | null {
    return this.all().findLast(({ parts }) => UP.has(parts.supervisor.state)) ?? null;
  }

  update(server: Server): void {
    for (const [by, { upstream }] of this.#partitions) upstream.update(definitionFor(server, by));
  }

  /** Closes partitions that were not used for the idle timeout, and idle connections of the others. */
  sweep(): void {
    const { deps, limits } = this.#node;
    const before = deps.clock.now() - limits.pool.idleTimeoutMs;
    for (const upstream of this.all()) upstream.sweep();
    void this.#end(({ upstream, usedAt }) => usedAt < before && upstream.idle, 'idle');
  }

  async halt(): Promise<void> {
    this.halted = true;
    await this.#end(() => true, 'restarted');
  }

  #made(definition: Server): Upstream {
    const { deps } = this.#node;
    const { name } = definition;
    const known = [...deps.knownCatalogs.load(name, definition.connectionDigest)];
    const remembered = rememberedCatalogs(definition, known, deps.clientInfo ?? null);
    return new Upstream(definition, this.#node, new ServerHistory(name, null), remembered, this.#base);
  }

  async #end(which: (partition: PartitionEntry) => boolean, why: StateLoss): Promise<void> {
    const ending = [...this.#partitions].filter(([, partition]) => which(partition));
    for (const [by] of ending) this.#partitions.delete(by);
    await Promise.all(ending.map(([, { upstream }]) => upstream.close('remove', why)));
  }
}
