import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import type { Era, Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Attempt } from './attempt.ts';
import { ChangeListener } from './change-listener.ts';
import { ClientCatalogs } from './client-catalogs.ts';
import { ClientConnections } from './client-connections.ts';
import { closedError } from './closed-error.ts';
import type { Connection } from './connection.ts';
import { ConnectionHealth } from './connection-health.ts';
import type { ConnectionOwner } from './connection-owner.ts';
import { Connector } from './connector.ts';
import { Dispatcher } from './dispatcher.ts';
import { EraUnspoken } from './era-unspoken.ts';
import { asGatewayError } from './failures.ts';
import { ListChanges } from './list-changes.ts';
import type { NodeLimits } from './node-limits.ts';
import type { ProcessQuota } from './process-quota.ts';
import { standIn } from './profiles.ts';
import { type RememberedCatalog, ServerCatalogs } from './server-catalogs.ts';
import { describeServer } from './server-status.ts';
import type { Wanted } from './session-pool.ts';
import { ownEra, SpokenEras } from './spoken-eras.ts';
import { Supervisor } from './supervisor.ts';
import { isExclusive, sessionOf } from './tenancy.ts';
import type { ClosedReason, CloseReason } from './transport/transport.ts';
import type { UpstreamSetDeps, UpstreamTimes } from './upstream-deps.ts';

/** Who wants a start, and in which era: null for whichever the server speaks. */
interface Wish {
  readonly profile: ClientProfile;
  readonly era: Era | null;
}

/**
 * The running side of one server on this node: supervisor, session pool, catalogues, status. A call on an
 * established connection goes straight to it; everything else (first use, crash, restart) waits for the supervisor.
 */
export class Upstream implements ConnectionOwner<Connection> {
  readonly #deps: UpstreamSetDeps;
  readonly #logger: Logger;
  readonly #connections: ClientConnections;
  readonly #catalogs: ServerCatalogs;
  readonly #shown: ClientCatalogs;
  readonly #changes: ListChanges;
  readonly #listener: ChangeListener;
  readonly #supervisor: Supervisor;
  readonly #dispatcher: Dispatcher;
  readonly #health: ConnectionHealth;
  readonly #nobody: ClientProfile;
  /** It lives and dies on this machine. */
  readonly #local: boolean;
  #server: Server;
  /** Connections that a crash took, to be brought back by the next start. */
  readonly #lost = new Map<string, Wanted>();
  /** Who wanted the coming start: what is presented on the connection that it opens. */
  #wish: Wish | null = null;
  #startedInMs: number | null = null;
  #lastExit: ServerStatus['lastExit'] = null;
  #stderrTail = '';
  #closeReason: CloseReason = 'remove';

  constructor(
    server: Server,
    deps: UpstreamSetDeps,
    times: UpstreamTimes,
    limits: NodeLimits,
    quota: ProcessQuota,
    remembered: Iterable<RememberedCatalog>,
  ) {
    const { clock, random, metrics, knownCatalogs, events } = deps;
    const { name } = server;
    const { type } = server.transport;
    const local = type === 'stdio' || type === 'memory';
    this.#local = local;
    this.#server = server;
    this.#deps = deps;
    this.#logger = deps.logger.child({ server: name });
    this.#nobody = standIn(deps.clientInfo ?? null);
    const help = 'Messages of a server that belong to nothing, by reason.';
    const dropped = metrics.counter('trunkline_upstream_dropped_total', help, ['server', 'reason']);
    const eras = new SpokenEras(deps.eraVerdicts, server.connectionDigest);
    const connector = new Connector({
      ...deps,
      times,
      eras,
      owner: this,
      tool: (profile, tool) => this.#catalogs.tool(profile.fingerprint, 'stateless', tool),
      dropped: (reason) => dropped.of(name, reason).add(),
      abandoned: (connection) => this.#recordEnd(connection),
      forgotten: (want) => this.#tellStateLost(want),
    });
    this.#connections = new ClientConnections(server, {
      clock,
      connector,
      quota: type === 'stdio' ? quota : null,
      eras,
      nobody: this.#nobody,
      adopted: (connection, want) => this.#useful(connection, want.profile),
    });
    const logger = this.#logger;
    const connectionFor = (profile: ClientProfile, era: Era) => this.#listingConnection(profile, era);
    const listed = (fingerprint: string, lists: readonly (keyof ServerCatalog['lists'])[]) => {
      this.#startedInMs ??= clock.now() - this.#supervisor.startedAt;
      if (lists.length > 0) events.catalogChanged(name, fingerprint, lists);
      this.#tell();
    };
    this.#catalogs = new ServerCatalogs(server, { clock, logger, knownCatalogs, connectionFor, listed }, remembered);
    this.#shown = new ClientCatalogs({
      clock,
      logger,
      eras,
      connections: this.#connections,
      catalogs: this.#catalogs,
      up: (client) => this.#up({ profile: client, era: ownEra(client) }),
      failing: () => this.#supervisor.consecutiveFailures > 0,
    });
    this.#changes = new ListChanges(clock, (connection, messages) => this.#listsChanged(connection, messages));
    this.#listener = new ChangeListener({ clock, missed: (connection) => this.#relistOver(connection) });
    this.#supervisor = new Supervisor({
      server: name,
      local,
      clock,
      random,
      startupTimeoutMs: times.startupMs,
      launch: (attempt) => this.#launch(attempt),
      halt: () => this.#connections.pool.closeAll(this.#closeReason),
      changed: (state, before) => {
        if (state !== before) logger.info('server_state', { state, before, reason: this.#supervisor.reason });
        this.#tell();
      },
    });
    this.#health = new ConnectionHealth({
      server: name,
      pingMs: times.pingMs,
      remote: !local,
      replace: (connection, error, how) => this.#replace(connection, error, how),
    });
    this.#dispatcher = new Dispatcher({
      clock,
      limits,
      server: () => this.#server,
      ready: (client) => this.#connections.ready(client),
      connection: (client) => this.#connections.whileWaiting(client, () => this.#connectionFor(client)),
      tool: (client, tool) => this.#shown.tool(client, tool),
      relist: (client) => this.#shown.refresh(client),
      answered: () => {
        this.#health.answered();
        this.#supervisor.proved();
      },
      unsent: (client) => this.#health.unsent(this.#connections.ready(client)),
      durations: metrics.histogram('mcp_client_operation_duration_seconds', 'Calls to servers, in seconds.', [
        'mcp_method_name',
        'server',
      ]),
    });
  }

  get server(): Server {
    return this.#server;
  }

  /** Takes over settings that need no new connection. */
  update(server: Server): void {
    this.#server = server;
    this.#catalogs.server = server;
    this.#connections.update(server);
    this.#tell();
  }

  start(): Promise<void> {
    return this.#supervisor.start();
  }

  suspend(): Promise<void> {
    return this.#supervisor.stop('suspended');
  }

  restart(): Promise<void> {
    this.#lost.clear();
    return this.#supervisor.restart();
  }

  call(request: Message, exchange: Exchange): Promise<Outcome> {
    return this.#dispatcher.call(request, exchange);
  }

  notify(notification: Message, client: ClientProfile): void {
    const connection = this.#connections.ready(client);
    if (connection === null || !isExclusive(connection.tenancy)) return;
    if (connection.era === notification.era) connection.notify(notification);
  }

  knownCatalog(client: ClientProfile): ServerCatalog | null {
    return this.#shown.known(client);
  }

  catalog(client: ClientProfile, waitMs: number): Promise<ServerCatalog | null> {
    return this.#shown.get(client, waitMs);
  }

  owns(client: ClientProfile): boolean {
    const connection = this.#connections.ready(client);
    return connection !== null && isExclusive(connection.tenancy);
  }

  releaseSession(sessionId: string): void {
    for (const [key, want] of this.#lost) if (sessionOf(want.tenancy) === sessionId) this.#lost.delete(key);
    this.#connections.release(sessionId);
  }

  sweep(): void {
    this.#connections.pool.sweep();
  }

  status(): ServerStatus {
    const live = this.#connections.pool.any();
    return describeServer({
      server: this.#server,
      supervisor: this.#supervisor,
      catalog: this.#catalogs.latest,
      catalogFromStore: this.#catalogs.latestIsRemembered,
      connections: this.#connections.pool.statuses(),
      startedInMs: this.#startedInMs,
      lastExit: this.#lastExit,
      stderrTail: live === null ? this.#stderrTail : live.transport.stderrTail(),
    });
  }

  drained(deadlineMs: number): Promise<void> {
    return this.#connections.pool.drained(deadlineMs);
  }

  /** Ends it for good. What is in flight gets UNKNOWN, so drain before where it matters. */
  async close(how: CloseReason): Promise<void> {
    this.#closeReason = how;
    this.#changes.close();
    this.#listener.close();
    if (how === 'remove') {
      for (const connection of this.#connections.pool.connections()) this.#tellStateLost(connection);
    }
    await this.#supervisor.stop();
  }

  // What connections tell.

  closed(connection: Connection, reason: ClosedReason): void {
    const want = this.#connections.pool.forget(connection);
    // During a handshake an end may be an answer; a start that fails of it tells by `abandoned`.
    if (want === null) return;
    this.#recordEnd(connection);
    const error = closedError(this.#server.name, reason);
    this.#logger.warn('connection_ended', { reason: reason.kind, error: error.message });
    // An HTTP session may outlive its connection: whether it did is known when it is resumed.
    if (connection.mcpSessionId === null || reason.kind === 'session_lost') {
      this.#connections.forgetSession(want.key);
      if (connection.era === 'stateful') this.#tellStateLost(want);
    }
    if (reason.kind === 'session_lost') this.#reinitialize(want);
    else {
      if (want.tenancy.kind !== 'spare') this.#lost.set(want.key, want);
      this.#supervisor.crashed(error);
    }
  }

  notified(connection: Connection, message: Message): void {
    if (connection.tenancy.kind === 'spare') return;
    this.#deps.events.notification(this.#server.name, sessionOf(connection.tenancy), message);
  }

  asked(connection: Connection, message: Message): Promise<Message> {
    return this.#deps.events.request(this.#server.name, sessionOf(connection.tenancy), message);
  }

  listChanged(connection: Connection, message: Message): void {
    this.#changes.note(connection, message);
  }

  missed(connection: Connection): void {
    this.#relistOver(connection);
  }

  unresponsive(connection: Connection): void {
    void this.#health.probe(connection);
  }

  /** Ends a connection that is of no use any more, as if it had ended by itself. */
  #replace(connection: Connection, error: GatewayError, how: CloseReason): void {
    const ended = connection.close(how);
    this.closed(connection, { kind: 'unreachable', error });
    void ended;
  }

  #recordEnd(connection: Connection): void {
    this.#stderrTail = connection.transport.stderrTail();
    if (connection.ended?.kind === 'exited')
      this.#lastExit = { code: connection.ended.code, signal: connection.ended.signal };
  }

  /** F22: a session the server has forgotten is replaced at once; what was not sent meanwhile waits for it. */
  #reinitialize(want: Wanted): void {
    const { pool } = this.#connections;
    const again = want.tenancy.kind === 'spare' ? pool.openSpare(want.profile, want.era) : pool.acquire(want);
    again.catch((error: unknown) => {
      if (!(error instanceof EraUnspoken)) this.#supervisor.crashed(asGatewayError(error, this.#server.name));
    });
  }

  #tellStateLost(of: { readonly tenancy: Wanted['tenancy'] }): void {
    const sessionId = sessionOf(of.tenancy);
    if (sessionId !== null) this.#deps.events.stateLost(this.#server.name, sessionId);
  }

  // Lists.

  /** A connection that the server can be listed over. */
  #useful(connection: Connection, profile: ClientProfile): void {
    this.#catalogs.ensure(profile, connection);
    this.#listener.watch(connection);
  }

  #listsChanged(connection: Connection, messages: readonly Message[]): void {
    const sessionId = sessionOf(connection.tenancy);
    if (sessionId !== null) {
      for (const message of messages) this.#deps.events.notification(this.#server.name, sessionId, message);
    }
    this.#relistOver(connection);
  }

  #relistOver(connection: Connection): void {
    if (!connection.ready) return;
    if (connection.era === 'stateless') this.#catalogs.refreshAll(connection);
    else this.#catalogs.refreshOver(connection);
  }

  async #listingConnection(profile: ClientProfile, era: Era): Promise<Connection> {
    await this.#up({ profile, era });
    return this.#connections.forListing(profile, era);
  }

  async #connectionFor(client: ClientProfile): Promise<Connection> {
    await this.#up({ profile: client, era: ownEra(client) });
    try {
      return await this.#connections.acquire(client);
    } catch (cause) {
      const error = asGatewayError(cause, this.#server.name);
      if (error.code !== 'OVERLOADED' && error.code !== 'CANCELLED') this.#supervisor.crashed(error);
      throw error;
    }
  }

  async #up(wish: Wish): Promise<void> {
    if (this.#supervisor.up) return;
    this.#wish = wish;
    await this.#supervisor.ready();
  }

  /** One start: brings back what a crash took, else opens the connection to list the server over. */
  async #launch(attempt: Attempt): Promise<void> {
    this.#catalogs.startedAnew();
    this.#startedInMs = null;
    let connection = await this.#recover();
    const wish = this.#wish ?? this.#catalogs.latestKind ?? { profile: this.#nobody, era: null };
    connection ??= this.#connections.pool.any() ?? (await this.#connections.first(wish.profile, wish.era, attempt));
    this.#wish = null;
    this.#useful(connection, connection.profile);
  }

  /**
   * Brings back what a crash took. Processes hold the state of their sessions and are started again at once; HTTP
   * sessions wait for the next call of their client, so that a thousand of them do not come back at one instant.
   */
  async #recover(): Promise<Connection | null> {
    const wanted = [...this.#lost.values()].filter(({ tenancy }) => this.#local || tenancy.kind === 'shared');
    this.#lost.clear();
    const recovered = await Promise.all(
      wanted.map(async (want) => {
        try {
          return await this.#connections.pool.acquire(want);
        } catch (cause) {
          const error = asGatewayError(cause, this.#server.name);
          if (error.code === 'OVERLOADED' || error.code === 'CANCELLED' || error instanceof EraUnspoken) return null;
          this.#lost.set(want.key, want);
          throw error;
        }
      }),
    );
    return recovered.find((connection) => connection !== null) ?? null;
  }

  #tell(): void {
    this.#deps.events.statusChanged(this.#server.name, this.status());
  }
}
