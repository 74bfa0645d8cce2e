import { apartAs, definitionFor } from '../model/caller-part.ts';
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
import { ended, spanOf, traceOf, withTrace } from '../protocol/trace-context.ts';
import { isExclusive } from './connection/session-key.ts';
import { Dispatcher } from './dispatcher.ts';
import { ErrorBoundary } from './error-boundary.ts';
import { ClientCatalogs } from './lists/client-catalogs.ts';
import { type RememberedCatalog, rememberedCatalogs } from './lists/server-catalogs.ts';
import { ServerStory } from './status/server-story.ts';
import type { CloseReason } from './transport/transport.ts';
import { type NodeShared, UpstreamParts } from './upstream-parts.ts';

/** `network.transport` of spans; null for a server in this process. */
const WIRES = { stdio: 'pipe', docker: 'pipe', http: 'tcp', sse: 'tcp', json: 'tcp', memory: null } as const;

/** One server on one node, behind its error boundary. */
export class Upstream {
  readonly parts: UpstreamParts;
  readonly boundary: ErrorBoundary;
  /** The upstream of the whole server; itself unless this is a caller side. */
  readonly whole: Upstream;
  /** The caller sides of a server that tells its callers apart; null for others. */
  readonly sides: CallerSides | null;
  readonly #dispatcher: Dispatcher;
  readonly #shown: ClientCatalogs;
  #ended: Promise<unknown> = Promise.resolve();

  /** `whole`: the upstream that this is a caller side of; null for a whole server. */
  constructor(
    server: Server,
    node: NodeShared,
    story: ServerStory,
    remembered: Iterable<RememberedCatalog>,
    whole: Upstream | null = null,
  ) {
    this.whole = whole ?? this;
    this.sides = whole === null && server.apart !== undefined ? new CallerSides(this, node) : null;
    const parts = new UpstreamParts(server, node, story, remembered, this.whole);
    this.parts = parts;
    this.#shown = new ClientCatalogs(parts);
    this.#dispatcher = new Dispatcher(parts, this.#shown, node.calls);
    this.boundary = new ErrorBoundary(server.name, parts.context.logger, parts.supervisor);
  }

  get server(): Server {
    return this.parts.context.server;
  }

  /** The definition, with `enabled` set to whether the server runs or may start; unchanged while that is unknown. */
  get asItRuns(): Server {
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
      this.sides?.update(server);
      connections.replicas.update();
      observer.tell();
      if (server.probeMs !== probeMs && supervisor.up) health.beginProbing();
    }, nothing);
  }

  start(): Promise<void> {
    if (this.sides !== null) this.sides.halted = false;
    return this.#later(() => this.parts.supervisor.start());
  }

  /** Whether it is not started and no start is due. */
  get untouched(): boolean {
    const { state, startingSince } = this.parts.supervisor;
    return state === 'unknown' && startingSince === null;
  }

  /** A suspended server starts when it is next needed. */
  wake(): Promise<void> {
    if (this.sides !== null) this.sides.halted = false;
    return this.#later(() => this.parts.supervisor.wake());
  }

  /** Stops it until `start` or `wake`. */
  stop(target: 'stopped' | 'suspended' = 'stopped'): Promise<void> {
    return this.#later(async () => {
      await Promise.all([this.parts.supervisor.stop(target), this.sides?.halt()]);
    });
  }

  /** The status that the API shows: if the whole server is not up, that of the caller side used last that is up. */
  status(): ServerStatus {
    const own = this.parts.observer.status();
    const side = own.initialized ? null : this.sides?.up;
    return side == null ? own : { ...side.parts.observer.status(), history: own.history };
  }

  get state(): ServerState {
    const { state } = this.parts.supervisor;
    return UP.has(state) ? state : (this.sides?.up?.state ?? state);
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
      if (this.sides !== null) {
        this.sides.halted = false;
        for (const side of this.sides.all()) void side.restart();
      }
      const rolling = supervisor.up ? connections.replicas.restart() : null;
      if (rolling !== null) return rolling;
      connections.lost.clear();
      return supervisor.restart();
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
    return ended(span.describe(name, attributes), this.#call(withTrace(request, traceparent), exchange, traceparent));
  }

  #call(request: Message, exchange: Exchange, trace: string | null): Promise<Outcome> {
    return this.boundary.run(() => this.#dispatcher.call(request, exchange, trace), failed);
  }

  notify(notification: Message, client: ClientProfile): void {
    this.boundary.run(() => {
      const connection = this.parts.connections.ready(this.#seen(client));
      if (connection === null || !isExclusive(connection.tenancy)) return;
      if (connection.era === notification.era) connection.notify(notification);
    }, nothing);
  }

  /** Whether the server cannot be started, or (if a client is given) this client's connection cannot be opened. */
  failing(client: ClientProfile | null): boolean {
    return this.parts.supervisor.failing || (client !== null && this.#dispatcher.failsFor(this.#seen(client)));
  }

  get inFlight(): number {
    let calls = 0;
    for (const connection of this.parts.connections.pool.connections()) calls += connection.inFlight;
    for (const side of this.sides?.all() ?? []) calls += side.inFlight;
    return calls;
  }

  /** Resolves when no call is in flight, at the latest after `deadlineMs`. */
  async drained(deadlineMs: number): Promise<void> {
    const sides = this.sides?.all() ?? [];
    const { pool } = this.parts.connections;
    await Promise.all([pool.drained(deadlineMs), ...sides.map((side) => side.drained(deadlineMs))]);
  }

  knownCatalog(client: ClientProfile, orOthers: boolean): ServerCatalog | null {
    return this.#shown.known(this.#seen(client), orOthers);
  }

  catalog(client: ClientProfile, waitMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    return this.boundary.later(
      () => this.#shown.get(this.#seen(client), waitMs, amongOthers),
      () => null,
    );
  }

  /** As `UpstreamSet.relist`. */
  relist(): Promise<void> {
    const { supervisor, upkeep } = this.parts;
    for (const side of this.sides?.all() ?? []) void side.relist();
    return supervisor.up ? this.#later(() => upkeep.heardElsewhere()) : Promise.resolve();
  }

  /** As `UpstreamSet.relistFor`. */
  relistFor(client: ClientProfile): Promise<void> {
    return this.parts.supervisor.up ? this.#later(() => this.#shown.relist(this.#seen(client))) : Promise.resolve();
  }

  /** As `Upstreams.foundMeanwhile`. */
  listed(client: ClientProfile): Promise<boolean> {
    const { connections, upkeep } = this.parts;
    const seen = this.#seen(client);
    const connection = connections.ready(seen);
    if (connection === null) return Promise.resolve(false);
    return this.boundary.later(
      () => upkeep.settled(connection, connections.listedAs(seen)),
      () => false,
    );
  }

  owns(client: ClientProfile): boolean {
    const connection = this.parts.connections.ready(this.#seen(client));
    return connection !== null && isExclusive(connection.tenancy);
  }

  /** As `Upstreams.sessionKey`. */
  sessionKey(client: ClientProfile): string | null {
    return this.parts.connections.keyOf(this.#seen(client));
  }

  releaseSession(sessionId: string): void {
    this.boundary.run(() => {
      this.parts.released(sessionId);
      this.parts.connections.release(sessionId);
      for (const side of this.sides?.all() ?? []) side.releaseSession(sessionId);
    }, nothing);
  }

  /** As `UpstreamSet.surrender`. */
  surrender(whose: ClientProfile | 'spare' | null): Promise<void> {
    const { connections } = this.parts;
    return this.#later(async () => {
      const closed = whose === null ? this.close('remove') : null;
      await Promise.all([closed, connections.surrender(connections.serving(whose), 'interrupt')]);
    });
  }

  /** As `UpstreamSet.handOver`. */
  handOver(whose: ClientProfile | null): Promise<void> {
    const { connections } = this.parts;
    return this.#later(async () => {
      const serving = connections.serving(whose);
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
      this.sides?.sweep();
    }, nothing);
  }

  /** Closes it for good; in-flight calls get UNKNOWN. `why`: the cause that sessions with lost state receive. */
  close(how: CloseReason, why: StateLoss = 'restarted'): Promise<void> {
    const { connections, upkeep, supervisor } = this.parts;
    return this.#later(async () => {
      this.parts.closeReason = how;
      upkeep.close();
      if (how === 'remove') {
        for (const connection of connections.pool.connections()) this.parts.stateLost(connection, why);
        connections.replicas.abandonCalls(why);
      }
      const sides = this.sides?.all() ?? [];
      this.#ended = Promise.all([this.#ended, supervisor.stop(), ...sides.map((side) => side.close(how, why))]);
      await this.#ended;
    });
  }

  #seen(client: ClientProfile): ClientProfile {
    return this.parts.context.seen(client);
  }

  #later(work: () => Promise<void>): Promise<void> {
    return this.boundary.later(work, nothing);
  }
}

function nothing(): void {}

function failed(error: GatewayError): Promise<Outcome> {
  return Promise.resolve(failure(error));
}

/** Maximum of caller sides of one server; at the maximum, one is closed for each new one. */
const MAX_SIDES = 1_024;

interface CallerSide {
  readonly upstream: Upstream;
  /** Id of the principal that the side was created for. */
  readonly principal: string;
  usedAt: number;
}

/**
 * The caller sides of a server that tells its callers apart: one per principal with its own credentials, and per set of
 * forwarded headers. Sides share no connections, lists, answers or state.
 */
class CallerSides {
  readonly #whole: Upstream;
  readonly #node: NodeShared;
  /** By the key that distinguishes the callers; least recently used first. */
  readonly #sides = new Map<string, CallerSide>();
  /** The operator has stopped the server: no side may start. */
  halted = false;

  constructor(whole: Upstream, node: NodeShared) {
    this.#whole = whole;
    this.#node = node;
  }

  /** The side that serves the client, created if needed; the whole server if nothing distinguishes the client. */
  of(client: ClientProfile): Upstream {
    const { server } = this.#whole;
    const by = apartAs(server, client);
    if (by === '' || this.halted || !server.enabled || server.misconfigured !== undefined) return this.#whole;
    const now = this.#node.deps.clock.now();
    const known = this.#sides.get(by);
    if (known === undefined && this.#sides.size >= MAX_SIDES) this.#makeRoom();
    const { id: principal } = client.principal;
    const side = known ?? { upstream: this.#made(definitionFor(server, by)), principal, usedAt: now };
    side.usedAt = now;
    this.#sides.delete(by);
    this.#sides.set(by, side);
    return side.upstream;
  }

  /** Closes the least recently used idle side of the principal with the most sides: no principal can displace all others. */
  #makeRoom(): void {
    const unused = [...this.#sides.values()].filter(({ upstream }) => !upstream.working);
    const [most] = [...Map.groupBy(unused, ({ principal }) => principal).values()].sort((a, b) => b.length - a.length);
    if (most !== undefined) void this.#end((side) => side === most[0], 'room');
  }

  all(): readonly Upstream[] {
    return Array.from(this.#sides.values(), ({ upstream }) => upstream);
  }

  /** The most recently used side that is up; null if there is none. */
  get up(): Upstream | null {
    return this.all().findLast(({ parts }) => UP.has(parts.supervisor.state)) ?? null;
  }

  update(server: Server): void {
    for (const [by, { upstream }] of this.#sides) upstream.update(definitionFor(server, by));
  }

  /** Closes sides that were not used for the idle timeout, and idle connections of the others. */
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
    return new Upstream(definition, this.#node, new ServerStory(name, null), remembered, this.#whole);
  }

  async #end(which: (side: CallerSide) => boolean, why: StateLoss): Promise<void> {
    const ending = [...this.#sides].filter(([, side]) => which(side));
    for (const [by] of ending) this.#sides.delete(by);
    await Promise.all(ending.map(([, { upstream }]) => upstream.close('remove', why)));
  }
}
