import { PhaseTimes } from '../http/client/phase-times.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { ConnectionChange, StateLoss } from '../model/ports.ts';
import { baseConnectionDigest, isOwnProcess, type Server } from '../model/server.ts';
import type { ListKind } from '../model/server-catalog.ts';
import { loginAdvice, type RecoveryStep, type ServerStatus } from '../model/server-state.ts';
import { stackOf } from '../model/thrown.ts';
import { declares } from '../protocol/client-capabilities.ts';
import { result } from '../protocol/compose.ts';
import type { Metric, Series } from '../telemetry/metrics.ts';
import type { Attempt } from './connection/attempt.ts';
import type { Connection } from './connection/connection.ts';
import { Connector } from './connection/connector.ts';
import { asGatewayError, closedError, EraUnsupported } from './connection/failures.ts';
import type { WantedConnection } from './connection/session-key.ts';
import { keysOfSession, labelOf, replacementOf, sessionOf, withLevel } from './connection/session-key.ts';
import { SupportedEras } from './connection/supported-eras.ts';
import { challengeOf } from './health/failure-class.ts';
import { ServerHealth } from './health/server-health.ts';
import { ListRefresher } from './lists/list-refresher.ts';
import { type RememberedCatalog, ServerCatalogs } from './lists/server-catalogs.ts';
import { ClientConnections } from './pool/client-connections.ts';
import type { ProcessQuota } from './pool/process-quota.ts';
import {
  type NodeLimits,
  type PartEvents,
  type PoolClosure,
  ServerContext,
  type UpstreamSetDeps,
  type UpstreamTimes,
} from './server-context.ts';
import { LastState, type ServerHistory } from './status/server-history.ts';
import { ServerObserver } from './status/server-observer.ts';
import { ReadinessWatch } from './supervision/readiness-watch.ts';
import type { StartQueue } from './supervision/start-queue.ts';
import type { Supervised, Transition } from './supervision/state-machine.ts';
import { Supervisor } from './supervision/supervisor.ts';
import type { ClosedReason, CloseReason } from './transport/transport.ts';

/** What all servers of a node share. */
export interface NodeShared {
  readonly deps: UpstreamSetDeps;
  readonly times: UpstreamTimes;
  readonly limits: NodeLimits;
  readonly quota: ProcessQuota;
  /** Limits how many child processes start at once. */
  readonly starts: StartQueue;
  /** In-flight calls of clients. */
  readonly calls: { count: number };
}

/** Keys of ended connections that are remembered; when full, all are dropped. */
const MAX_ENDED = 65_536;
/** How long a superseded connection has to finish its in-flight requests. */
const FINISH_MS = 30_000;

/**
 * The parts of one upstream: creates them, starts and stops what its supervisor orders, and forwards their events to the
 * supervisor, to sessions that lost state, to the lists and to the gateway.
 */
export class UpstreamParts implements PartEvents, Supervised {
  readonly context: ServerContext;
  /** Reports the status of the whole server; these parts may belong to one of its partitions. */
  readonly base: { status(): ServerStatus };
  readonly supervisor: Supervisor;
  readonly eras: SupportedEras;
  readonly connections: ClientConnections;
  readonly catalogs: ServerCatalogs;
  readonly listRefresher: ListRefresher;
  readonly health: ServerHealth;
  readonly observer: ServerObserver;
  readonly history: ServerHistory;
  /** This upstream's part of the server's state history. */
  readonly lastState = new LastState();
  /** Times of the request phases of a server behind a URL; null for others. */
  readonly phases: PhaseTimes | null;
  /** The reason with which `halt` closes the connections. */
  closeReason: CloseReason = 'remove';
  readonly #connector: Connector;
  /** null for a local server, whose start shows that it is ready. */
  readonly #readiness: ReadinessWatch | null;
  /** Queue for starts of child processes; null for a server that is not a child process. */
  readonly #starts: StartQueue | null;
  readonly #dropped: Metric<Series>;
  /** Keys whose connection ended and was not replaced yet. */
  readonly #ended = new Set<string>();

  constructor(
    server: Server,
    node: NodeShared,
    history: ServerHistory,
    remembered: Iterable<RememberedCatalog>,
    base: { status(): ServerStatus },
  ) {
    const { deps, limits } = node;
    const { clock, random, ownership } = deps;
    const reachable = deps.surroundings?.reachable;
    const { transport, name, connectionDigest, misconfigured, caller } = server;
    const context = new ServerContext(server, deps, limits, node.times, this);
    const { local, times } = context;
    this.context = context;
    this.base = base;
    this.history = history;
    this.#starts = isOwnProcess(server) ? node.starts : null;
    this.phases = 'url' in transport ? new PhaseTimes() : null;
    const startRecord = deps.startRecords?.of(name, connectionDigest);
    const advice = loginAdvice(name, transport, caller?.owner);
    this.supervisor = new Supervisor(
      { server: name, advice, local, clock, random, times, misconfigured, startRecord, ownership },
      this,
    );
    this.eras = new SupportedEras(deps.eraVerdicts, baseConnectionDigest(server));
    this.#connector = new Connector(context, this.eras, this.phases);
    this.connections = new ClientConnections(context, {
      connector: this.#connector,
      eras: this.eras,
      supervisor: this.supervisor,
      quota: isOwnProcess(server) ? node.quota : null,
      starts: this.#starts,
    });
    this.catalogs = new ServerCatalogs(context, this.supervisor, this.connections, remembered);
    this.listRefresher = new ListRefresher(context, this.catalogs);
    this.health = new ServerHealth(context, this.connections.pool);
    this.observer = new ServerObserver(this);
    const looks = reachable !== undefined && 'url' in transport ? () => reachable(transport.url) : null;
    this.#readiness = looks === null ? null : new ReadinessWatch(clock, this.supervisor, looks);
    this.#dropped = deps.metrics.counter(
      'trunkline_upstream_dropped_total',
      'Messages of a server that belong to nothing, by reason.',
      ['server', 'reason'],
    );
  }

  // Start and stop of the server (`Supervised`).

  async launch(attempt: Attempt): Promise<void> {
    try {
      await this.#launch(attempt);
    } catch (error) {
      // Callers and events see this message; it contains the command and folders as they are used.
      if (error instanceof Error) error.message = this.context.redacted(error.message);
      throw error;
    }
  }

  /** One start: reopens the connections that a crash ended, else opens one to list the server over. */
  async #launch(attempt: Attempt): Promise<void> {
    const { connections, observer } = this;
    if (this.#starts === null) attempt.begin();
    this.catalogs.restarted();
    observer.starting();
    void attempt.started.then(() => {
      observer.starting();
      observer.notifyChange();
    });
    const lost = await connections.reopenLost(attempt);
    const connection = lost ?? connections.pool.any() ?? (await this.#openFirst(attempt));
    this.supervisor.requester = null;
    this.listRefresher.onConnectionAvailable(connection, connection.profile);
    // Connections that ended while others were reopened.
    await connections.reopenLost(attempt);
  }

  /** Reads the requesting client after the wait in the queue, because it may become known only then. */
  async #openFirst(attempt: Attempt): Promise<Connection> {
    try {
      if (this.#starts !== null) await this.#starts.take(attempt);
      const { placeholderProfile } = this.context;
      const { profile, era } = this.supervisor.requester ??
        this.catalogs.latestKind ?? { profile: placeholderProfile, era: null };
      return await this.connections.first(profile, era, attempt);
    } finally {
      attempt.place?.leave();
    }
  }

  async halt(): Promise<void> {
    try {
      const { pool, replicas } = this.connections;
      const keys = [...pool.keys()];
      const closed = pool.closeAll(this.closeReason);
      for (const key of keys) this.ended(key);
      await Promise.all([closed, replicas.halt()]);
    } catch (error) {
      this.context.logger.warn('server_halt_failed', { error: String(error) });
    }
  }

  moved(transition: Transition): void {
    const { to, from, reason, failure, at } = transition;
    const { supervisor, context } = this;
    const { logger } = context;
    this.health.moved(to);
    logger.info('server_state', { state: to, before: from, reason, failure });
    if (to === 'defect') logger.error('server_defect', { stack: stackOf(supervisor.error?.cause) });
    this.observer.moved(transition);
    this.#readiness?.moved(to);
    const { challenge } = supervisor;
    this.history.stateChanged(this.lastState, { from, to, reason: context.redacted(reason), failure, challenge, at });
    this.changed();
  }

  beforeAuthRequired(error: GatewayError): void {
    const { deps, logger } = this.context;
    try {
      deps.beforeAuthRequired?.(this.observer.status(), challengeOf(error));
    } catch (cause) {
      logger.error('auth_required_hook_failed', { error: String(cause) });
    }
  }

  recovery(step: RecoveryStep, reason: string | null): void {
    const { deps, logger, name, server } = this.context;
    const { caller, callerSeparation } = server;
    // If each principal has its own credential, the whole server has restarted when it asks for one.
    const asks = callerSeparation?.credentials === true && this.supervisor.state === 'auth_required';
    if (step === 'failed' && caller === undefined && asks) [step, reason] = ['succeeded', null];
    logger.info('server_recovery', { step, reason });
    // The restarts of its partitions are part of its own.
    if (caller === undefined) deps.listener?.recovery(name, step, this.context.redacted(reason));
  }

  healthChanged(reason: string | null): void {
    this.context.logger.warn('server_health', { health: reason === null ? 'healthy' : 'unhealthy', reason });
    this.history.healthChanged(this.lastState, this.context.redacted(reason));
    this.changed();
  }

  changed(): void {
    this.observer.notifyChange();
  }

  // Connections (`PartEvents`).

  closed(connection: Connection, reason: ClosedReason): void {
    const { connections, supervisor, context } = this;
    const want = connections.pool.forget(connection);
    // During a handshake an end may be an answer; a failed start is reported by `abandoned`.
    if (want === null) return;
    this.abandoned(connection);
    const error = closedError(context.name, reason, connection.transport.stderrTail());
    context.logger.warn('connection_ended', { reason: reason.kind, error: error.message });
    this.catalogs.own.ended(connection);
    if (want.tenancy.kind !== 'spare') this.ended(want.key);
    // An HTTP session may outlive its connection: resuming it shows whether it did.
    if (connection.mcpSessionId === null || reason.kind === 'session_lost') {
      this.#connector.disowned(want.key, connection);
      // For a session that all nodes share, the node that opens the next one reports the loss.
      if (connection.era === 'stateful' && connection.joined === null) this.stateLost(want);
    }
    // A server that drops each new session at once is started again with back-off.
    const next = reason.kind === 'session_lost' ? replacementOf(want, connection, context.deps.clock.wall()) : null;
    if (next !== null) this.#reinitialize(next);
    else if (!this.#replaced(want, connection, error)) {
      if (want.tenancy.kind !== 'spare') connections.lost.set(want.key, withLevel(want, connection));
      supervisor.crashed(error, connection.createdAt);
    }
  }

  adopted(connection: Connection, want: WantedConnection): void {
    const { key } = connection;
    this.listRefresher.onConnectionAvailable(connection, want.profile);
    this.#notify(key, 'opened');
    if (this.#ended.delete(key)) {
      // Notifications of the server in between may have been missed.
      this.context.deps.events.contentChanged(this.context.name, null);
      void this.#notifyAfter(this.catalogs.renewed(connection), [key], 'renewed');
    }
    this.connections.replicas.opened(want, connection.era);
  }

  ended(key: string): void {
    if (this.#ended.size >= MAX_ENDED) this.#ended.clear();
    this.#ended.add(key);
    this.#notify(key, 'ended');
  }

  /** Reports the state of the session as lost, unless its HTTP session stays open at the server. */
  closedByPool({ want, connection, why, resumable }: PoolClosure): void {
    const { logger, name: server } = this.context;
    const { consecutiveErrors, lastError } = connection.use;
    logger.info('connection_swept', { connection: labelOf(want.tenancy), why, consecutiveErrors, lastError });
    if (want.tenancy.kind === 'spare') return;
    this.catalogs.own.ended(connection);
    this.ended(want.key);
    if (resumable) return;
    const text =
      why === 'errors' ? `it failed ${consecutiveErrors} times in a row: ${lastError}` : 'its connection was closed';
    this.#replaced(want, connection, new GatewayError('NOT_SENT', text, { server }));
    this.#connector.forget(want.key);
    if (connection.era === 'stateful') this.stateLost(want, why);
  }

  /** The session has ended: its connections are not expected to be replaced. */
  released(sessionId: string): void {
    for (const key of keysOfSession(sessionId)) this.#ended.delete(key);
  }

  abandoned(connection: Connection): void {
    this.observer.ended(connection);
  }

  notified(connection: Connection, message: Message): void {
    if (connection.tenancy.kind === 'spare') return;
    const { deps, name } = this.context;
    deps.events.notification(name, sessionOf(connection.tenancy), message, connection.key);
  }

  asked(connection: Connection, message: Message): Promise<Message> {
    const sessionId = sessionOf(connection.tenancy);
    // There is no single client to ask, but `roots` was declared on the connection: the same empty list is answered for all.
    if (sessionId === null && message.method === 'roots/list' && declares(connection.profile.capabilities, message)) {
      return Promise.resolve(result(message.id, '{"roots":[]}', 'stateful'));
    }
    return this.context.deps.events.request(this.context.name, sessionId, message, connection.key);
  }

  outdated(_connection: Connection, message: Message): void {
    this.context.deps.events.contentChanged(this.context.name, message);
  }

  listChanged(connection: Connection, message: Message): void {
    this.listRefresher.onListChanged(connection, message);
  }

  missed(connection: Connection): void {
    this.context.deps.events.contentChanged(this.context.name, null);
    // One stateless connection receives the list changes of all stateless connections.
    const keys = connection.era === 'stateless' ? [...this.connections.pool.keys()] : [connection.key];
    void this.#notifyAfter(this.listRefresher.relisted(connection), keys, 'missed');
  }

  unresponsive(connection: Connection): void {
    void this.health.unresponsive(connection);
  }

  replace(connection: Connection, error: GatewayError, how: CloseReason): void {
    void this.connections.pool.close(connection, this.context.ownProcess ? 'interrupt' : how);
    this.closed(connection, { kind: 'unreachable', error });
  }

  /** Reports the session state as lost and closes the connection after its in-flight requests. */
  superseded(connection: Connection): void {
    const want = this.connections.pool.forget(connection);
    connection.joined?.leave();
    connection.joined = null;
    void connection.drained(FINISH_MS).then(() => connection.close('remove'));
    if (want === null) return;
    this.abandoned(connection);
    this.ended(want.key);
    this.stateLost(want);
  }

  /** Reports that the state which the server kept for a session is lost. */
  stateLost(of: { readonly tenancy: WantedConnection['tenancy'] }, cause: StateLoss = 'restarted'): void {
    const sessionId = sessionOf(of.tenancy);
    if (sessionId !== null) this.context.deps.events.stateLost(this.context.name, sessionId, cause);
  }

  dropped(reason: string): void {
    this.#dropped.of(this.context.name, reason).add();
  }

  tool(fingerprint: string, name: string): Buffer | null {
    return this.catalogs.tool(fingerprint, 'stateless', name);
  }

  listed(fingerprint: string, lists: readonly ListKind[], key: string | null): void {
    const { deps, name } = this.context;
    if (lists.length > 0 || key !== null) deps.events.catalogChanged(name, fingerprint, lists, key);
    if (key === null) this.observer.listed();
  }

  /** Reports the change after the lists were read, so that a client that is notified and lists gets the new ones. */
  async #notifyAfter(listed: Promise<void>, keys: readonly string[], change: ConnectionChange): Promise<void> {
    await listed;
    for (const key of keys) if (key !== '') this.#notify(key, change);
    this.context.deps.events.relisted?.(this.context.name);
  }

  /** Whether the connection was one of several replicas and another one takes over. */
  #replaced(want: WantedConnection, { era, use }: Connection, error: GatewayError): boolean {
    return this.connections.replicas.crashed(want, era, error, use.served);
  }

  #notify(key: string, change: ConnectionChange): void {
    this.context.deps.events.connectionChanged(this.context.name, key, change);
  }

  /** F22: replaces a session that the server has dropped; calls that were not sent wait for the new one. */
  #reinitialize(want: WantedConnection): void {
    const { pool } = this.connections;
    const again = want.tenancy.kind === 'spare' ? pool.openWarm(want) : pool.acquire(want);
    again.catch((cause: unknown) => {
      const error = asGatewayError(cause, this.context.name);
      if (!(error instanceof EraUnsupported)) void this.health.openFailed(error, this.supervisor);
    });
  }
}
