import { availableParallelism } from 'node:os';
import type { ClientProfile } from '../model/client-profile.ts';
import { POOL_DEFAULTS } from '../model/desired-state.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError, type ProcessCapacity } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { StateLoss, Upstreams } from '../model/ports.ts';
import { isOwnProcess, type Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { ServerState, ServerStatus } from '../model/server-state.ts';
import { stackOf } from '../model/thrown.ts';
import { Attempt } from './connection/attempt.ts';
import { catchDefects, inServerContext } from './error-boundary.ts';
import { type RememberedCatalog, rememberedCatalogs } from './lists/server-catalogs.ts';
import { ProcessQuota } from './pool/process-quota.ts';
import { type NodeLimits, UPSTREAM_TIMES, type UpstreamSetDeps, type Whose } from './server-context.ts';
import { ServerHistory } from './status/server-history.ts';
import { type Plan, planChanges } from './supervision/plan.ts';
import { STARTS, StartQueue } from './supervision/start-queue.ts';
import { isAtRest } from './supervision/state-machine.ts';
import type { CloseReason } from './transport/transport.ts';
import { Upstream } from './upstream.ts';
import type { NodeShared } from './upstream-parts.ts';

type CatalogsByServer = Map<string, (ServerCatalog & { readonly identity: string })[]>;

/** All servers of this node. `apply` starts new servers before it stops those they replace; unchanged servers keep running. */
export class UpstreamSet implements Upstreams {
  readonly #deps: UpstreamSetDeps;
  readonly #node: NodeShared;
  readonly #remoteStarts: StartQueue;
  readonly #upstreams = new Map<string, Upstream>();
  readonly #histories = new Map<string, ServerHistory>();
  /** Replaced or removed upstreams that finish their in-flight calls. */
  readonly #leaving = new Map<Upstream, Promise<void>>();
  /** Upstreams that are starting as replacements. */
  readonly #replacements = new Set<Upstream>();
  #desired: ReadonlyMap<string, Server> = new Map();
  #sorted: readonly Server[] = [];
  #started = false;
  #closing: Promise<void> | null = null;
  #stopSweeping: () => void = () => {};
  #stopCatching: (() => void) | null = null;

  constructor(deps: UpstreamSetDeps) {
    this.#deps = deps;
    const { clock, maxProcesses, maxTimeoutMs = 10 * 60_000, pool = POOL_DEFAULTS } = deps;
    const width = deps.startsAtOnce ?? availableParallelism() + 2 + STARTS.own.forCalls;
    const limits = { maxProcesses, maxTimeoutMs, pool };
    const times = { ...UPSTREAM_TIMES, ...deps.times };
    const starts = new StartQueue({ width, ...STARTS.own }, clock);
    this.#node = { deps, times, limits, quota: new ProcessQuota(limits, clock), starts, calls: { count: 0 } };
    this.#remoteStarts = new StartQueue(STARTS.remote, clock);
  }

  /** Changes the limits of the node; running processes and calls continue. */
  limit(limits: NodeLimits): void {
    const { sweepMs } = this.#node.limits.pool;
    Object.assign(this.#node.limits, limits);
    if (!this.#started || this.#closing !== null || limits.pool.sweepMs === sweepMs) return;
    this.#stopSweeping();
    this.#sweepLater();
  }

  /** Whether the running code belongs to one server: an exception is then handled as that server's defect. */
  get inServerContext(): boolean {
    return inServerContext();
  }

  /** From now on an exception in work for a server is that server's defect. A call may start a server before `start`. */
  guard(): void {
    this.#stopCatching ??= catchDefects();
  }

  /** Starts the eager servers, a few at a time. Returns at once. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.guard();
    for (const upstream of this.#upstreams.values()) this.#begin(upstream);
    this.#sweepLater();
  }

  /** Resolves when every replaced or removed server has stopped; new ones may still be starting. */
  async apply(servers: ReadonlyMap<string, Server>): Promise<void> {
    if (this.#closing !== null) return;
    const plan = planChanges(this.#desired, servers);
    this.#desired = servers;
    this.#sorted = [...servers.values()].filter(({ enabled }) => enabled).sort((a, b) => (a.name < b.name ? -1 : 1));
    await this.#carryOut(plan);
  }

  /** Starts and stops servers until they match the desired ones. Returns the servers that differed; stops may take a while. */
  reconcile(): readonly string[] {
    if (this.#closing !== null) return [];
    const actual = new Map([...this.#upstreams.values()].map((up) => [up.server.name, up.effectiveDefinition]));
    // A replacement that is starting counts as running.
    for (const { server } of this.#replacements) actual.set(server.name, server);
    const plan = planChanges(actual, this.#desired);
    this.#carryOut(plan).catch((error: unknown) => this.#deps.logger.error('apply_failed', { error }));
    return [plan.start, plan.stop, plan.suspend, plan.replace, plan.update].flat().map(({ name }) => name);
  }

  async #carryOut(plan: Plan): Promise<void> {
    const { logger, knownCatalogs } = this.#deps;
    const left: Promise<void>[] = [];
    // An exception in one server's change does not stop the others.
    const each = (servers: readonly Server[], change: (server: Server) => Promise<void> | void): void => {
      for (const server of servers) {
        const log = (error: unknown) => logger.error('server_defect', { server: server.name, stack: stackOf(error) });
        left.push((async () => change(server))().catch(log));
      }
    };
    each(plan.stop, ({ name }) => this.#remove(name));
    // Loaded once per plan: loading the catalogs is most of the cost of a start.
    const needed = plan.start.length + plan.suspend.length + plan.replace.length > 0;
    const known = Map.groupBy(needed ? knownCatalogs.load() : [], ({ server }) => server);
    each(plan.update, (server) => this.#update(server));
    each(plan.suspend, (server) => this.#suspend(server, known));
    each(plan.start, (server) => this.#add(server, known));
    each(plan.replace, (server) => this.#replace(server, known));
    // Other nodes may start the stopped servers, and are notified only when all of them have stopped.
    await Promise.all(left);
  }

  servers(): readonly Server[] {
    return this.#sorted;
  }

  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    const called = this.#for(server, exchange.client)?.call(request, exchange);
    if (called !== undefined) return called;
    const error = new GatewayError('NOT_SENT', `there is no server ${server}`, { server, retryable: false });
    return Promise.resolve(failure(error));
  }

  notify(server: string, notification: Message, client: ClientProfile): void {
    this.#for(server, client)?.notify(notification, client);
  }

  knownCatalog(server: string, client: ClientProfile, orOthers = false): ServerCatalog | null {
    return this.#for(server, client)?.knownCatalog(client, orOthers) ?? null;
  }

  catalog(server: string, client: ClientProfile, waitMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    const upstream = this.#for(server, client);
    // A list over many servers may be the first use of each: they start a few at a time, as at startup.
    if (amongOthers && upstream?.notStarted) void this.#startInTurn(upstream);
    return upstream?.catalog(client, waitMs, amongOthers) ?? Promise.resolve(null);
  }

  sessionKey(server: string, client: ClientProfile): string | null {
    return this.#for(server, client)?.sessionKey(client) ?? null;
  }

  ownsConnection(server: string, client: ClientProfile): boolean {
    return this.#for(server, client)?.owns(client) ?? false;
  }

  awaitPendingLists(server: string, { client }: Exchange): Promise<boolean> {
    return this.#for(server, client)?.listed(client) ?? Promise.resolve(false);
  }

  failing(server: string, client: ClientProfile | null = null): boolean {
    return this.#for(server, client)?.failing(client) === true;
  }

  get inFlight(): number {
    return this.#node.calls.count;
  }

  capacity(server: string): ProcessCapacity {
    return this.#upstreams.get(server)?.parts.connections.pool.capacity ?? 'free';
  }

  /** Running child processes of all servers, and the limit. */
  get processes(): { readonly running: number; readonly limit: number } {
    return { running: this.#node.quota.taken, limit: this.#node.limits.maxProcesses };
  }

  status(server: string, client: ClientProfile | null = null): ServerStatus | null {
    return this.#for(server, client)?.status() ?? null;
  }

  state(server: string, client: ClientProfile | null = null): ServerState | null {
    return this.#for(server, client)?.state ?? null;
  }

  statuses(): readonly ServerStatus[] {
    return [...this.#upstreams.keys()].sort().map((name) => this.#upstreams.get(name)!.status());
  }

  async restart(server: string): Promise<void> {
    const upstream = this.#upstreams.get(server);
    if (upstream === undefined) throw new GatewayError('INVALID_PARAMS', `there is no server ${server}`, { server });
    if (upstream.server.enabled && this.#closing === null) return upstream.restart();
    const why = this.#closing !== null ? 'the gateway stops' : 'it is suspended or disabled; resume or enable it first';
    throw new GatewayError('NOT_SENT', `${server} was not restarted: ${why}`, { server, retryable: false });
  }

  /** Restarts this owner's upstreams: those that wait for credentials, or all that run if the credential is gone. */
  async credentialChanged(server: string, owner: string | null, gone: boolean): Promise<void> {
    const base = this.#upstreams.get(server);
    const sides = base === undefined ? [] : [base, ...(base.partitions?.all() ?? [])];
    const due = sides.filter(({ server: { caller }, parts }) => {
      const { state } = parts.supervisor;
      const runs = !isAtRest(state) && state !== 'stopping';
      return (caller?.owner ?? null) === owner && (gone ? runs : state === 'auth_required');
    });
    await Promise.all(due.map((side) => side.restart()));
  }

  /** The upstream of a server on this node. */
  upstream(server: string): Upstream | null {
    return this.#upstreams.get(server) ?? null;
  }

  releaseSession(sessionId: string): void {
    for (const upstream of this.#upstreams.values()) upstream.releaseSession(sessionId);
  }

  /** Another node reports changed lists of the server: lists it again if it is up. */
  relist(server: string): Promise<void> {
    return this.#upstreams.get(server)?.relist() ?? Promise.resolve();
  }

  /** Lists again for this kind of client, if the server is up: another node knows an item for it that this node does not. */
  relistFor(server: string, client: ClientProfile): Promise<void> {
    return this.#for(server, client)?.relistFor(client) ?? Promise.resolve();
  }

  /** By session key: the catalogs of processes that serve one client each, where they differ from that of a fresh process. */
  ownLists(server: string): ReadonlyMap<string, ServerCatalog> {
    return new Map(this.#upstreams.get(server)?.parts.catalogs.own.byKey());
  }

  /** Closes these connections, or (null) all, at once: another node may own their processes, or their caller is gone. */
  async surrender(server: string, whose: Whose | null): Promise<void> {
    await Promise.all(this.#all(server).map((upstream) => upstream.surrender(whose)));
  }

  /** As `surrender`, but gracefully: another node starts the process only after it has ended here. */
  async handOver(server: string, whose: ClientProfile | null): Promise<void> {
    await Promise.all(this.#all(server).map((upstream) => upstream.handOver(whose)));
  }

  /** The upstream that serves the client: the client's partition where the server separates its callers. */
  #for(server: string, client: ClientProfile | null): Upstream | undefined {
    const upstream = this.#upstreams.get(server);
    return client === null || upstream?.partitions == null ? upstream : upstream.partitions.of(client);
  }

  /** All upstreams of this server, including those that are leaving or starting as replacements. */
  #all(server: string): readonly Upstream[] {
    const all = [...this.#upstreams.values(), ...this.#leaving.keys(), ...this.#replacements];
    return all.filter((upstream) => upstream.server.name === server);
  }

  /** Resolves when no call is in flight, at the latest after `deadlineMs`. The caller must send no new calls. */
  async drain(deadlineMs: number = this.#node.times.drainMs): Promise<void> {
    await Promise.all(Array.from(this.#upstreams.values(), (upstream) => upstream.drained(deadlineMs)));
  }

  /** Stops every server. Resolves when all processes and connections have ended. */
  close(reason: CloseReason): Promise<void> {
    return (this.#closing ??= this.#close(reason));
  }

  async #close(reason: CloseReason): Promise<void> {
    this.#stopSweeping();
    const all = [...this.#upstreams.values(), ...this.#leaving.keys(), ...this.#replacements];
    await Promise.allSettled([...all.map((upstream) => upstream.close(reason)), ...this.#leaving.values()]);
    this.#stopCatching?.();
  }

  #add(server: Server, known: CatalogsByServer): void {
    const present = this.#upstreams.get(server.name);
    present?.update(server);
    const upstream = present ?? this.#make(server, known);
    this.#setCurrent(upstream);
    if (this.#started) this.#begin(upstream);
  }

  /** A server that waits for its first call starts when it becomes eager, unless its replacement is starting. */
  #update(server: Server): void {
    const upstream = this.#upstreams.get(server.name);
    upstream?.update(server);
    const replaced = [...this.#replacements].some((next) => next.server.name === server.name);
    if (this.#started && !replaced && server.start === 'eager' && upstream?.notStarted) this.#begin(upstream);
  }

  #begin(upstream: Upstream): void {
    const { name, enabled, misconfigured, start, connectionDigest } = upstream.server;
    const { startRecords } = this.#deps;
    if (!enabled) void upstream.stop('suspended');
    // It will not be launched, so it does not wait for a place in the queue.
    else if ((misconfigured ?? startRecords?.of(name, connectionDigest).blockedReason) != null) void upstream.start();
    else if (start === 'eager') void this.#startInTurn(upstream);
    else void upstream.wake();
  }

  /** A child process waits for its own place in the start queue. */
  async #startInTurn(upstream: Upstream): Promise<void> {
    if (isOwnProcess(upstream.server)) return upstream.start();
    const { supervisor } = upstream.parts;
    const { generation } = supervisor;
    supervisor.due();
    const attempt = new Attempt();
    await this.#remoteStarts.take(attempt);
    // The server may have been stopped, removed or replaced while it waited.
    const current = this.#upstreams.get(upstream.server.name) === upstream.base;
    if (current && supervisor.generation === generation) await upstream.start();
    attempt.place?.leave();
  }

  #make(server: Server, known: CatalogsByServer): Upstream {
    const history = this.#histories.get(server.name) ?? new ServerHistory(server.name, this.#deps.listener ?? null);
    this.#histories.set(server.name, history);
    const make = (remembered: readonly RememberedCatalog[]) => new Upstream(server, this.#node, history, remembered);
    try {
      return make(rememberedCatalogs(server, known.get(server.name) ?? [], this.#deps.clientInfo ?? null));
    } catch (error) {
      // Invalid stored catalogs are dropped; they must not prevent a start.
      this.#deps.logger.warn('known_catalogs_dropped', { server: server.name, error });
      this.#deps.knownCatalogs.forget(server.name);
      return make([]);
    }
  }

  /** Makes it the server's current upstream. */
  #setCurrent(upstream: Upstream): void {
    const { name } = upstream.server;
    this.#upstreams.set(name, upstream);
    this.#histories.get(name)?.setCurrent(upstream.parts.lastState, this.#deps.clock.wall());
  }

  async #suspend(server: Server, known: CatalogsByServer): Promise<void> {
    // A replacement that waits in the queue leaves it and is suspended.
    for (const next of this.#replacements) if (next.server.name === server.name) void next.stop('suspended');
    const upstream = this.#upstreams.get(server.name);
    if (upstream === undefined) return this.#add(server, known);
    upstream.update(server);
    await upstream.stop('suspended');
  }

  /** Starts the new upstream before it stops the old one; a failed start does not restore the old definition. */
  async #replace(server: Server, known: CatalogsByServer): Promise<void> {
    this.#dropReplacements(server.name);
    const next = this.#make(server, known);
    const before = this.#upstreams.get(server.name);
    this.#replacements.add(next);
    if (this.#started && server.enabled && server.start === 'eager') await next.start();
    // `close` or another change came first and has stopped the replacement.
    if (!this.#replacements.delete(next) || this.#closing !== null) return this.#leaving.get(next);
    // The desired definition may have changed during the start.
    const desired = this.#desired.get(server.name);
    const present = this.#upstreams.get(server.name);
    if (desired?.connectionDigest !== server.connectionDigest || present !== before) return next.close('remove');
    if (desired !== server) next.update(desired);
    this.#setCurrent(next);
    if (!desired.enabled) void next.stop('suspended');
    if (before !== undefined) await this.#leave(before, 'restarted');
  }

  /** Drops a replacement that is no longer wanted, so that it leaves the start queue. */
  #dropReplacements(name: string): void {
    for (const upstream of this.#replacements) {
      if (upstream.server.name === name && this.#replacements.delete(upstream)) void this.#leave(upstream, 'restarted');
    }
  }

  async #remove(name: string): Promise<void> {
    this.#dropReplacements(name);
    const upstream = this.#upstreams.get(name);
    if (upstream === undefined || !this.#upstreams.delete(name)) return;
    try {
      this.#deps.knownCatalogs.forget(name);
      this.#deps.upstreamSessions.deleteAll(name);
      this.#histories.get(name)?.end();
      this.#histories.delete(name);
    } finally {
      await this.#leave(upstream, 'removed');
    }
  }

  /** Closes it after its in-flight calls. */
  async #leave(upstream: Upstream, why: StateLoss): Promise<void> {
    const left = upstream.drained(this.#node.times.drainMs).then(() => upstream.close('remove', why));
    this.#leaving.set(upstream, left);
    await left.finally(() => this.#leaving.delete(upstream));
  }

  #sweepLater(): void {
    this.#stopSweeping = this.#deps.clock.after(this.#node.limits.pool.sweepMs, () => {
      for (const upstream of this.#upstreams.values()) upstream.sweep();
      this.#sweepLater();
    });
  }
}
