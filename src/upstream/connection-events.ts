import type { ClientProfile } from '../model/client-profile.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Era, Message } from '../model/message.ts';
import type { ConnectionChange, StateLoss, UpstreamEvents } from '../model/ports.ts';
import type { InvalidItem, ListKind } from '../model/server-catalog.ts';
import { type RecoveryStep, UP } from '../model/server-state.ts';
import { declares } from '../protocol/askable.ts';
import { result } from '../protocol/compose.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metric, Series } from '../telemetry/metrics.ts';
import type { Attempt } from './connection/attempt.ts';
import type { Connection } from './connection/connection.ts';
import type { ConnectorOwner } from './connection/connector.ts';
import { asGatewayError, closedError, EraUnspoken } from './connection/failures.ts';
import { keysOfSession, labelOf, sessionOf, type WantedConnection } from './connection/session-key.ts';
import { challengeOf } from './health/failure-class.ts';
import type { ConnectionHealth, HealthProbe } from './health/health-probe.ts';
import type { ServerHealth } from './health/server-health.ts';
import type { ListUpkeep } from './lists/list-upkeep.ts';
import type { ServerCatalogs } from './lists/server-catalogs.ts';
import type { PartEvents } from './part-events.ts';
import type { ClientConnections } from './pool/client-connections.ts';
import type { LostConnections } from './pool/lost-connections.ts';
import type { Swept } from './pool/slot.ts';

import type { ServerContext } from './server-context.ts';
import type { ServerRuns } from './server-runs.ts';
import type { ServerObserver } from './status/server-observer.ts';
import type { StoryPart } from './status/server-story.ts';
import type { LaunchReports } from './supervision/launch-reports.ts';
import type { ReadinessWatch } from './supervision/readiness-watch.ts';
import type { Supervised, Transition } from './supervision/state-machine.ts';
import type { Supervisor } from './supervision/supervisor.ts';
import type { ClosedReason, CloseReason } from './transport/transport.ts';

/** Keys of connections that ended and were not wanted again; beyond that they are forgotten. */
const MAX_ENDED = 65_536;

/** The parts of one server's running side. */
export interface ConnectionEventsParts {
  readonly connections: ClientConnections;
  readonly supervisor: Supervisor;
  readonly lost: LostConnections;
  readonly upkeep: ListUpkeep;
  readonly catalogs: ServerCatalogs;
  readonly runs: ServerRuns;
  readonly judged: ServerHealth;
  readonly health: ConnectionHealth;
  readonly probe: HealthProbe;
  readonly observer: ServerObserver;
  readonly launches: LaunchReports;
  /** null for what is started here, and is there when its start is over. */
  readonly readiness: ReadinessWatch | null;
}

/** What is in flight on a connection that has lost its place gets so long to finish. */
const FINISH_MS = 30_000;

/**
 * What the parts of one server's running side tell, brought to those whom it concerns: the end of a connection to the
 * supervisor and to the session that lost its state, changed lists to those who list, the rest to the gateway.
 */
export class ConnectionEvents implements PartEvents, ConnectorOwner, Supervised {
  readonly #context: ServerContext;
  readonly #server: string;
  readonly #logger: Logger;
  readonly #events: UpstreamEvents;
  readonly #part: StoryPart;
  readonly #dropped: Metric<Series>;
  /** Keys whose connection ended by itself, till they have another one. */
  readonly #ended = new Set<string>();
  #parts!: ConnectionEventsParts;

  constructor(context: ServerContext, part: StoryPart) {
    this.#context = context;
    this.#server = context.name;
    this.#logger = context.logger;
    this.#events = context.deps.events;
    this.#part = part;
    this.#dropped = context.deps.metrics.counter(
      'trunkline_upstream_dropped_total',
      'Messages of a server that belong to nothing, by reason.',
      ['server', 'reason'],
    );
  }

  /** Once, before the first connection. */
  attach(parts: ConnectionEventsParts): void {
    this.#parts = parts;
  }

  closed(connection: Connection, reason: ClosedReason): void {
    const { connections, supervisor, lost } = this.#parts;
    const want = connections.pool.forget(connection);
    // During a handshake an end may be an answer; a start that fails of it tells by `abandoned`.
    if (want === null) return;
    this.abandoned(connection);
    const error = closedError(this.#server, reason, connection.transport.stderrTail());
    this.#logger.warn('connection_ended', { reason: reason.kind, error: error.message });
    this.#parts.upkeep.ended(connection);
    if (want.tenancy.kind !== 'spare') this.ended(want.key);
    // An HTTP session may outlive its connection: whether it did is known when it is resumed.
    if (connection.mcpSessionId === null || reason.kind === 'session_lost') {
      connections.disowned(want.key, connection);
      // For a session that all nodes use, the node that opens the next one reports it.
      if (connection.era === 'stateful' && connection.joined === null) this.stateLost(want);
    }
    if (reason.kind === 'session_lost') this.#reinitialize(withLevel(want, connection));
    else if (!this.#replaced(want, connection, error)) {
      if (want.tenancy.kind !== 'spare') lost.add(withLevel(want, connection));
      supervisor.crashed(error, connection.createdAt);
    }
  }

  adopted(connection: Connection, want: WantedConnection): void {
    this.#parts.upkeep.useful(connection, want.profile);
    this.#opened(connection);
    this.#parts.connections.replicas.opened(want, connection.era);
  }

  #opened(connection: Connection): void {
    const { key } = connection;
    this.#tell(key, 'opened');
    if (!this.#ended.delete(key)) return;
    // What the server would have said meanwhile is unknown.
    this.#events.outdated(this.#server, null);
    void this.#tellAfter(this.#parts.upkeep.renewed(connection), [key], 'renewed');
  }

  ended(key: string): void {
    if (this.#ended.size >= MAX_ENDED) this.#ended.clear();
    this.#ended.add(key);
    this.#tell(key, 'ended');
  }

  /** The pool closed it. What its server kept for a session is lost, unless that is an HTTP session left as it is. */
  swept({ want, connection, why, resumable }: Swept): void {
    const { consecutiveErrors, lastError } = connection.use;
    const fields = { connection: labelOf(want.tenancy), why, consecutiveErrors, lastError };
    this.#logger.info('connection_swept', fields);
    if (want.tenancy.kind === 'spare') return;
    this.#parts.upkeep.ended(connection);
    this.ended(want.key);
    if (resumable) return;
    const text =
      why === 'errors' ? `it failed ${consecutiveErrors} times in a row: ${lastError}` : 'its connection was closed';
    this.#replaced(want, connection, new GatewayError('NOT_SENT', text, { server: this.#server }));
    this.#parts.connections.forgetSession(want.key);
    if (connection.era === 'stateful') this.stateLost(want, why);
  }

  /** The session is over: its connections are not waited for any more. */
  released(sessionId: string): void {
    for (const key of keysOfSession(sessionId)) this.#ended.delete(key);
  }

  abandoned(connection: Connection): void {
    this.#parts.observer.ended(connection);
  }

  notified(connection: Connection, message: Message): void {
    if (connection.tenancy.kind === 'spare') return;
    this.#events.notification(this.#server, sessionOf(connection.tenancy), message, connection.key);
  }

  asked(connection: Connection, message: Message): Promise<Message> {
    const sessionId = sessionOf(connection.tenancy);
    // No one client to ask, but one capability that was declared: what is the same for all is answered for them.
    if (sessionId === null && message.method === 'roots/list' && declares(connection.profile.capabilities, message)) {
      return Promise.resolve(result(message.id, '{"roots":[]}', 'stateful'));
    }
    return this.#events.request(this.#server, sessionId, message, connection.key);
  }

  outdated(_connection: Connection, message: Message): void {
    this.#events.outdated(this.#server, message);
  }

  listChanged(connection: Connection, message: Message): void {
    this.#parts.upkeep.noted(connection, message);
  }

  missed(connection: Connection): void {
    this.#events.outdated(this.#server, null);
    const { pool } = this.#parts.connections;
    // All stateless connections are listened to over one of them.
    const keys = connection.era === 'stateless' ? [...pool.keys()] : [connection.key];
    void this.#tellAfter(this.#parts.upkeep.relisted(connection), keys, 'missed');
  }

  unresponsive(connection: Connection): void {
    void this.#parts.health.probe(connection);
  }

  replace(connection: Connection, error: GatewayError, how: CloseReason): void {
    const ended = connection.close(how);
    this.closed(connection, { kind: 'unreachable', error });
    void ended;
  }

  /**
   * All nodes use another session by now, and what this one's client has built up on its own is gone. What is in flight on
   * it still gets its answer.
   */
  superseded(connection: Connection): void {
    const { connections } = this.#parts;
    const want = connections.pool.forget(connection);
    connection.joined?.leave();
    connection.joined = null;
    void connection.drained(FINISH_MS).then(() => connection.close('remove'));
    if (want === null) return;
    this.abandoned(connection);
    this.ended(want.key);
    this.stateLost(want);
  }

  /** What the server kept for a session is gone. */
  stateLost(of: { readonly tenancy: WantedConnection['tenancy'] }, cause: StateLoss = 'restarted'): void {
    const sessionId = sessionOf(of.tenancy);
    if (sessionId !== null) this.sessionLost(sessionId, cause);
  }

  sessionLost(sessionId: string, cause: StateLoss): void {
    this.#events.stateLost(this.#server, sessionId, cause);
  }

  forgotten(want: WantedConnection): void {
    this.stateLost(want);
  }

  dropped(reason: string): void {
    this.#dropped.of(this.#server, reason).add();
  }

  tool({ profile }: Connection, name: string): Buffer | null {
    return this.#parts.catalogs.tool(profile.fingerprint, 'stateless', name);
  }

  // Lists (`PartEvents`).

  listingConnection(profile: ClientProfile, era: Era): Promise<Connection> {
    return this.#parts.runs.listingConnection(profile, era);
  }

  listed(fingerprint: string, lists: readonly ListKind[], key: string | null): void {
    if (lists.length > 0 || key !== null) this.#events.catalogChanged(this.#server, fingerprint, lists, key);
    if (key === null) this.#parts.observer.listed();
  }

  itemInvalid(invalid: InvalidItem): void {
    const item = invalid.item === null ? null : this.#logger.redact(invalid.item);
    const reason = this.#logger.redact(invalid.reason);
    this.#context.deps.news?.listItemInvalid(this.#server, { ...invalid, item, reason });
  }

  // The server's run (`Supervised`).

  async launch(attempt: Attempt): Promise<void> {
    try {
      await this.#parts.runs.launch(attempt);
    } catch (error) {
      // Callers and events see these words; they name commands and folders as they are used.
      if (error instanceof Error) error.message = this.#logger.redact(error.message);
      throw error;
    }
  }

  async halt(): Promise<void> {
    try {
      await this.#parts.runs.halt();
    } catch (error) {
      this.#logger.warn('server_halt_failed', { error: String(error) });
    }
  }

  moved(transition: Transition): void {
    const { to, from, reason, failure, at } = transition;
    const { supervisor, judged, probe, launches, readiness } = this.#parts;
    judged.startedAnew();
    if (UP.has(to)) probe.begin();
    else probe.end();
    this.#logger.info('server_state', { state: to, before: from, reason, failure });
    if (to === 'defect') this.#logger.error('server_defect', { stack: stackOf(supervisor.error?.cause) });
    launches.moved(transition);
    readiness?.moved(to);
    this.#part.moved({ from, to, reason: this.#redacted(reason), failure, challenge: supervisor.challenge, at });
    this.changed();
  }

  beforeAuthRequired(error: GatewayError): void {
    try {
      this.#context.deps.beforeAuthRequired?.(this.#parts.observer.status(), challengeOf(error));
    } catch (cause) {
      this.#logger.error('auth_required_hook_failed', { error: String(cause) });
    }
  }

  recovery(step: RecoveryStep, reason: string | null): void {
    this.#logger.info('server_recovery', { step, reason });
    this.#context.deps.news?.recovery(this.#server, step, this.#redacted(reason));
  }

  /** The server is unhealthy for this reason, or healthy again (null). */
  healthTurned(reason: string | null): void {
    this.#logger.warn('server_health', { health: reason === null ? 'healthy' : 'unhealthy', reason });
    this.#part.healthTurned(this.#redacted(reason));
    this.changed();
  }

  changed(): void {
    this.#parts.observer.tell();
  }

  #redacted(text: string | null): string | null {
    return text === null ? null : this.#logger.redact(text);
  }

  /** Once the lists are known again, so that a client that is notified and lists gets the new ones. */
  async #tellAfter(listed: Promise<void>, keys: readonly string[], change: ConnectionChange): Promise<void> {
    await listed;
    for (const key of keys) if (key !== '') this.#tell(key, change);
    this.#events.relisted?.(this.#server);
  }

  /** Whether the connection was one of several replicas, and another takes over. */
  #replaced(want: WantedConnection, { era, use }: Connection, error: GatewayError): boolean {
    return this.#parts.connections.replicas.crashed(want, era, error, use.requests > use.errors);
  }

  #tell(key: string, change: ConnectionChange): void {
    this.#events.connectionChanged(this.#server, key, change);
  }

  /** F22: a session the server has forgotten is replaced at once; what was not sent meanwhile waits for it. */
  #reinitialize(want: WantedConnection): void {
    const { connections, supervisor } = this.#parts;
    const { pool } = connections;
    const again = want.tenancy.kind === 'spare' ? pool.openSpare(want.profile, want.era) : pool.acquire(want);
    again.catch((error: unknown) => {
      if (!(error instanceof EraUnspoken)) supervisor.crashed(asGatewayError(error, this.#server));
    });
  }
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** The session's next connection begins with the log level that it asked for on this one. */
function withLevel(want: WantedConnection, { logLevel }: Connection): WantedConnection {
  return want.tenancy.kind === 'session' ? { ...want, profile: { ...want.profile, logLevel } } : want;
}
