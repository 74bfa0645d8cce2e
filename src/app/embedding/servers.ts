import { DEFAULTS, MAX_TIME_MS } from '../../config/defaults.ts';
import { statusView } from '../../control/server-view.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { foldedName } from '../../model/names.ts';
import type { Server } from '../../model/server.ts';
import { isSettled, type ServerStatus } from '../../model/server-state.ts';
import { logWarnings } from '../../registry/reload-report.ts';
import type { ConnectionKey } from '../../upstream/connection/session-key.ts';
import type { MemoryServerFactory } from '../../upstream/transport/memory-transport.ts';
import type { App } from '../app.ts';
import { readDefinition } from './definitions.ts';
import type { GatewayServerStatus } from './gateway-api.ts';
import { type AgentClient, GatewayClient, settleMs } from './gateway-client.ts';
import type { ServerDefinition, StoredServer } from './gateway-options.ts';
import { InProcessServer, inProcessBytes, inProcessDefinition } from './in-process.ts';
import type { Overlay } from './overlay.ts';
import { type Refreshed, Router } from './router.ts';
import { ServedClient } from './served-client.ts';
import type { ServerWatch } from './server-watch.ts';

export interface ServersDeps {
  readonly app: App;
  readonly overlay: Overlay;
  readonly watch: ServerWatch;
  /** The factories of in-process servers, read by the transports. */
  readonly memoryServers: Map<string, MemoryServerFactory>;
}

/** The servers of an embedded gateway, in a cluster those of all nodes, and the operations of a program on them. */
export class Servers {
  readonly #deps: ServersDeps;
  readonly #router = new GatewayRouter(this);
  /** Clients that the program added to the router, by name. They are served, but have no status of a server (S2.33). */
  readonly #served = new Map<string, ServedClient>();
  readonly #clients = new Map<string, GatewayClient>();
  #lastKey = 0;

  constructor(deps: ServersDeps) {
    this.#deps = deps;
    // Registered after the listeners of the gateway's own components, so that those run first.
    deps.app.components.registry.onChange(({ servers }) => {
      for (const name of servers.removed) deps.watch.removed(name);
      this.#follow();
    });
    deps.app.components.cluster?.listen({ serversChanged: () => this.#follow() });
    this.#follow();
  }

  get router(): Router {
    return this.#router;
  }

  client(name: string): GatewayClient | null {
    return this.#clients.get(name) ?? null;
  }

  statuses(): readonly GatewayServerStatus[] {
    const { allUpstreams } = this.#deps.app.components;
    return allUpstreams
      .statuses()
      .filter(({ name }) => !this.#served.has(name))
      .map(copyOf);
  }

  status(name: string): GatewayServerStatus | null {
    const status = this.#served.has(name) ? null : this.#deps.app.components.allUpstreams.status(name);
    return status === null ? null : copyOf(status);
  }

  /** Waits for the named servers, or for all of this gateway. */
  async waitUntilSettled(names: readonly string[] | null, timeoutMs: number): Promise<readonly GatewayServerStatus[]> {
    const wanted = (): readonly string[] => names ?? [...this.#deps.app.state.servers.keys()];
    await this.#waitUntilSettled(wanted, timeoutMs);
    const waitedFor = new Set(wanted());
    return this.statuses().filter(({ name }) => waitedFor.has(name));
  }

  async #waitUntilSettled(wanted: () => readonly string[], timeoutMs: number): Promise<void> {
    await this.#until(() => wanted().every((name) => this.#isSettled(name)), timeoutMs);
    const { upstreams, allUpstreams, operator, registry } = this.#deps.app.components;
    // This node knows the lists of a server at another node only after it has asked for them.
    const unknown = wanted().filter((name) => {
      const up = upstreams.status(name) === null && allUpstreams.status(name)?.initialized === true;
      return up && allUpstreams.knownCatalog(name, operator.profile) === null;
    });
    const { firstListWaitMs } = registry.state;
    await Promise.all(unknown.map((name) => allUpstreams.catalog(name, operator.profile, firstListWaitMs)));
  }

  #isSettled(name: string): boolean {
    const { state, components } = this.#deps.app;
    const status = components.allUpstreams.status(name);
    // A lazy server waits for its first call.
    if (status?.state === 'unknown' && status.definition.start === 'lazy') return true;
    if (status !== null) return isSettled(status);
    // No node has claimed the singleton yet; one of them will.
    return state.servers.get(name)?.enabled !== true;
  }

  /** A gateway that stops ends all waits, because it gets no more events of other nodes. */
  #until(condition: () => boolean, timeoutMs: number): Promise<void> {
    const { app, watch } = this.#deps;
    return watch.until(() => app.stopping !== null || condition(), timeoutMs, app.components.cluster !== null);
  }

  /** Adds in-process servers before servers start. */
  async addInProcess(servers: ReadonlyMap<string, InProcessServer>): Promise<void> {
    const { app, overlay } = this.#deps;
    for (const [name, server] of servers) {
      this.#refuseTaken(name);
      overlay.servers.set(name, this.#inProcess(name, server));
    }
    if (servers.size > 0) await app.applyOverlay();
  }

  /** Adds the servers of a store before servers start. Reports and skips invalid ones. */
  async addStored(stored: readonly StoredServer[]): Promise<void> {
    const { app, overlay } = this.#deps;
    const { logger, clock, operations } = app.components;
    const taken = new Set([...app.state.servers.keys()].map(foldedName));
    for (const row of stored) {
      const since = clock.now();
      try {
        const { name, definition } = row;
        const folded = foldedName(name);
        if (taken.has(folded)) throw new GatewayError('INVALID_PARAMS', `there are two servers ${name}`);
        const make = await this.#read(name, definition, '<store>');
        overlay.servers.set(name, make());
        taken.add(folded);
      } catch (cause) {
        const error = cause as Error;
        const server = String(row?.name);
        logger.error('stored_server_skipped', { server, reason: error.message });
        operations?.report({ name: 'start', subject: server, server, error }, since);
      }
    }
    await app.applyOverlay();
  }

  /** Sorted names of the servers that should run. */
  active(): readonly string[] {
    return [...this.#deps.app.state.servers.values()]
      .filter(({ enabled }) => enabled)
      .map(({ name }) => name)
      .sort();
  }

  async register(name: string, definition: ServerDefinition, mayReplace = false): Promise<GatewayServerStatus> {
    this.refuseClosed();
    this.#refuseTaken(name, mayReplace);
    const make = await this.#read(name, definition);
    // While the definition was read, another caller may have taken the name.
    this.#refuseTaken(name, mayReplace);
    const server = make();
    const { app, overlay } = this.#deps;
    const before = app.state.servers.get(name);
    // The configured server stays removed when the program removes the new one later.
    if (before !== undefined && !overlay.servers.has(name)) overlay.hidden.add(name);
    // It replaces a client that the program added to the router, too.
    if (this.#served.delete(name)) this.#router.addClient(this.#clients.get(name)!, { replace: true });
    return this.#put(name, server).finally(() => this.#forget(before));
  }

  /** Serves a client that the program added to the router; throws GatewayError INVALID_PARAMS if its name is bad or taken. */
  serve(client: AgentClient, replace: boolean): void {
    const { name } = client;
    this.refuseClosed();
    this.#refuseTaken(name, replace);
    const served = new ServedClient(client);
    const server = this.#inProcess(name, inProcessBytes(served.connect, { isolation: 'shared' }));
    const before = this.#deps.app.state.servers.get(name);
    this.#served.set(name, served);
    this.#deps.overlay.servers.set(name, server);
    this.#applied(this.#deps.app.applyOverlay().then(() => this.#forget(before)));
  }

  /** The client was removed from the router. */
  withdraw(name: string): void {
    if (this.#served.delete(name)) this.#applied(this.#takeAway([name]));
  }

  /** The router has listed the tools of its clients again. */
  refreshed(): void {
    for (const served of this.#served.values()) served.changed();
  }

  #applied(work: Promise<unknown>): void {
    const { logger } = this.#deps.app.components;
    work.catch((error) => logger.error('router_not_applied', { error: String(error) }));
  }

  unregister(name: string): Promise<boolean> {
    return this.#takeAway([name]);
  }

  async unregisterAll(): Promise<void> {
    await this.#takeAway([...this.#deps.app.state.servers.keys()]);
  }

  async #put(name: string, server: Server): Promise<GatewayServerStatus> {
    const { app, overlay } = this.#deps;
    overlay.servers.set(name, server);
    await app.applyOverlay();
    const registered = (): boolean => app.state.servers.has(name);
    await this.#waitUntilSettled(() => (registered() ? [name] : []), settleMs(app.components, name));
    if (!registered()) throw takenAway(name);
    const status = this.status(name);
    if (status !== null) return status;
    this.refuseClosed();
    throw new GatewayError('NOT_SENT', `${name} is registered, and no node runs it`, { server: name });
  }

  /** Returns false if there was none of them. */
  async #takeAway(names: readonly string[]): Promise<boolean> {
    const { app, overlay } = this.#deps;
    const servers = names.map((name) => app.state.servers.get(name)).filter((server) => server !== undefined);
    if (servers.length === 0) return false;
    for (const { name } of servers) {
      if (this.#served.delete(name)) this.#router.removeClient(name);
      if (!overlay.servers.delete(name)) overlay.hidden.add(name);
      overlay.suspended.delete(name);
    }
    await app.applyOverlay();
    for (const server of servers) this.#forget(server);
    return true;
  }

  /** Drops the factory of a server that has ended. */
  #forget(server: Server | undefined): void {
    if (server?.transport.type === 'memory') this.#deps.memoryServers.delete(server.transport.key);
  }

  /** 0 or less sets the default. Rejects with GatewayError INVALID_PARAMS for NaN and for more than the limit. */
  async setTimeout(name: string, seconds: number): Promise<void> {
    const { app, overlay } = this.#deps;
    const timeoutMs = seconds <= 0 ? DEFAULTS.timeoutMs : Math.max(1, Math.round(seconds * 1000));
    if (!(timeoutMs <= MAX_TIME_MS)) {
      throw new GatewayError('INVALID_PARAMS', `a deadline is at most ${MAX_TIME_MS / 1000} seconds`, { server: name });
    }
    overlay.timeouts.set(name, timeoutMs);
    await app.applyOverlay();
  }

  /** Resolves when none of its processes runs at this node. */
  async stop(name: string): Promise<GatewayServerStatus> {
    const upstream = this.#deps.app.components.upstreams.upstream(name);
    if (upstream === null) throw unknown(name);
    await upstream.stop();
    return this.#present(name);
  }

  async suspend(name: string, suspended: boolean): Promise<GatewayServerStatus> {
    const { app, overlay } = this.#deps;
    if (!app.state.servers.has(name)) throw unknown(name);
    if (suspended) overlay.suspended.add(name);
    else overlay.suspended.delete(name);
    await app.applyOverlay();
    return this.#started(name);
  }

  closeConnection({ server, session }: ConnectionKey): boolean {
    return this.#deps.app.components.upstreams.upstream(server)?.closeConnection(session) ?? false;
  }

  async restart(name: string): Promise<GatewayServerStatus> {
    this.refuseClosed();
    if (this.client(name) === null) throw unknown(name);
    await this.#deps.app.components.allUpstreams.restart(name);
    return this.#started(name);
  }

  async #started(name: string): Promise<GatewayServerStatus> {
    await this.#waitUntilSettled(() => [name], settleMs(this.#deps.app.components, name));
    return this.#present(name);
  }

  #present(name: string): GatewayServerStatus {
    const status = this.status(name);
    if (status === null) throw takenAway(name);
    return status;
  }

  /** Throws GatewayError INVALID_REQUEST once the gateway has begun to end. */
  refuseClosed(): void {
    const { stopping } = this.#deps.app;
    if (stopping !== null) throw new GatewayError('INVALID_REQUEST', `the gateway takes nothing new: ${stopping}`);
  }

  /** Resolves with a function that makes the server, to be called when the name is free. */
  async #read(name: string, definition: ServerDefinition, label = '<registerServer>'): Promise<() => Server> {
    if (definition instanceof InProcessServer) return () => this.#inProcess(name, definition);
    const { logger, options } = this.#deps.app.components;
    const { cwd, env } = options.load;
    const { server, warnings, secrets } = await readDefinition(name, definition, label, { cwd, env });
    for (const secret of secrets) logger.addSecret(secret);
    logWarnings(warnings, logger);
    return () => server;
  }

  #inProcess(name: string, { factory, options }: InProcessServer): Server {
    // A new key each time, so that no connection of an earlier server of this name is reused.
    const key = `${name} ${++this.#lastKey}`;
    const server = inProcessDefinition(name, key, options);
    this.#deps.memoryServers.set(key, factory);
    return server;
  }

  #refuseTaken(name: string, mayReplace = false): void {
    for (const taken of this.#deps.app.state.servers.keys()) {
      if (foldedName(taken) !== foldedName(name) || (mayReplace && taken === name)) continue;
      const how = taken === name ? 'is registered already' : `would be confused with ${taken}`;
      throw new GatewayError('INVALID_PARAMS', `the server ${name} ${how}`, { server: name });
    }
  }

  /** Removes the clients of removed servers, and adds those of new ones; other clients stay the same objects. */
  #follow(): void {
    const { state, components } = this.#deps.app;
    const names = new Set([...state.servers.keys(), ...components.allUpstreams.servers().map(({ name }) => name)]);
    for (const name of this.#clients.keys()) {
      if (names.has(name)) continue;
      if (this.#router.getClient(name) === this.#clients.get(name)) this.#router.removeClient(name);
      this.#clients.delete(name);
    }
    for (const name of names) {
      if (this.#clients.has(name)) continue;
      const client = new GatewayClient(name, components);
      this.#clients.set(name, client);
      if (this.#router.getClient(name) === null) this.#router.addClient(client);
    }
  }
}

/** The router of a gateway, which serves the clients that a program adds to it to its own clients (S2.35). */
class GatewayRouter extends Router {
  readonly #servers: Servers;

  constructor(servers: Servers) {
    super();
    this.#servers = servers;
  }

  override addClient(client: AgentClient, options: { readonly replace?: boolean } = {}): void {
    const before = this.getClient(client.name);
    super.addClient(client, options);
    if (client instanceof GatewayClient) return;
    try {
      this.#servers.serve(client, options.replace === true);
    } catch (error) {
      super.removeClient(client.name);
      if (before !== null) super.addClient(before);
      throw error;
    }
  }

  override removeClient(name: string): boolean {
    const removed = super.removeClient(name);
    if (removed) this.#servers.withdraw(name);
    return removed;
  }

  override async refreshTools(): Promise<readonly Refreshed[]> {
    const found = await super.refreshTools();
    this.#servers.refreshed();
    return found;
  }
}

/** Returns a copy, because callers may change it. */
function copyOf(status: ServerStatus): GatewayServerStatus {
  return statusView(structuredClone(status));
}

function unknown(name: string): GatewayError {
  return new GatewayError('INVALID_PARAMS', `there is no server ${name}`, { server: name });
}

function takenAway(name: string): GatewayError {
  return new GatewayError('CANCELLED', `${name} was unregistered while it started`);
}
