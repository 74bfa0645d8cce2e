import { PhaseTimes } from '../http/client/phase-times.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import { isOwnProcess, type Server } from '../model/server.ts';
import { type RecoveryStep, UP } from '../model/server-state.ts';
import type { Connection } from './connection/connection.ts';
import { Connector } from './connection/connector.ts';
import { isExclusive, standIn } from './connection/session-key.ts';
import { SpokenEras } from './connection/spoken-eras.ts';
import { ConnectionEvents } from './connection-events.ts';
import { Dispatcher } from './dispatcher.ts';
import { ErrorBoundary } from './error-boundary.ts';
import { challengeOf } from './health/failure-class.ts';
import { ConnectionHealth, HealthProbe } from './health/health-probe.ts';
import { ServerHealth } from './health/server-health.ts';
import { ClientCatalogs } from './lists/client-catalogs.ts';
import { ListUpkeep } from './lists/list-upkeep.ts';
import { type RememberedCatalog, ServerCatalogs } from './lists/server-catalogs.ts';
import { ClientConnections } from './pool/client-connections.ts';
import { LostConnections } from './pool/lost-connections.ts';
import type { NodeLimits, ProcessQuota } from './pool/process-quota.ts';
import { fetchesProgram } from './process/command.ts';
import { ServerRuns } from './server-runs.ts';
import { ServerObserver } from './status/server-observer.ts';
import type { ServerStory, StoryPart } from './status/server-story.ts';
import { LaunchReports } from './supervision/launch-reports.ts';
import { ReadinessWatch } from './supervision/readiness-watch.ts';
import type { StartQueue } from './supervision/start-queue.ts';
import { isAtRest } from './supervision/state-machine.ts';
import { Supervisor } from './supervision/supervisor.ts';
import type { CloseReason } from './transport/transport.ts';
import type { UpstreamSetDeps, UpstreamTimes } from './upstream-deps.ts';

const REMOTE_SILENCE_MS = 5_000;

/** What all servers of a node share. */
export interface UpstreamContext {
  readonly deps: UpstreamSetDeps;
  readonly times: UpstreamTimes;
  readonly limits: NodeLimits;
  readonly quota: ProcessQuota;
  /** Where processes start. */
  readonly starts: StartQueue;
}

/** What one running side is given beside that. */
export interface UpstreamPlace {
  readonly story: ServerStory;
  readonly part: StoryPart;
}

/** What the running side of one server is made of. */
export interface UpstreamParts {
  readonly boundary: ErrorBoundary;
  readonly supervisor: Supervisor;
  readonly runs: ServerRuns;
  readonly connections: ClientConnections;
  readonly events: ConnectionEvents;
  readonly lost: LostConnections;
  readonly catalogs: ServerCatalogs;
  readonly shown: ClientCatalogs;
  readonly upkeep: ListUpkeep;
  readonly observer: ServerObserver;
  readonly probe: HealthProbe;
  readonly dispatcher: Dispatcher;
}

export function assembleUpstream(
  server: Server,
  context: UpstreamContext & UpstreamPlace,
  remembered: Iterable<RememberedCatalog>,
): UpstreamParts {
  const { deps, limits, quota, story, part } = context;
  const { clock, random, metrics, knownCatalogs } = deps;
  const { name } = server;
  const { type } = server.transport;
  const starts = isOwnProcess(server) ? context.starts : null;
  const local = type === 'stdio' || type === 'docker' || type === 'memory';
  const usual = local ? context.times : remoteTimes(context.times);
  const startupMs = fetchesProgram(server.transport) ? usual.fetchingStartupMs : usual.startupMs;
  const times: UpstreamTimes = {
    ...usual,
    get startupMs() {
      return observer.server.startupTimeoutMs ?? startupMs;
    },
  };
  const logger = deps.logger.child({ server: name });
  const nobody = standIn(deps.clientInfo ?? null);
  const dropped = metrics.counter(
    'trunkline_upstream_dropped_total',
    'Messages of a server that belong to nothing, by reason.',
    ['server', 'reason'],
  );
  const durations = metrics.histogram('mcp_client_operation_duration_seconds', 'Calls to servers, in seconds.', [
    'mcp_method_name',
    'server',
  ]);

  const phases = 'url' in server.transport ? new PhaseTimes() : null;
  const recovered = (step: RecoveryStep, reason: string | null): void => {
    logger.info('server_recovery', { step, reason });
    deps.news?.recovery(name, step, reason === null ? null : logger.redact(reason));
  };

  const eras = new SpokenEras(deps.eraVerdicts, server.connectionDigest);
  const events = new ConnectionEvents(name, logger, deps.events);
  const connector = new Connector({
    ...deps,
    times,
    eras,
    phases,
    owner: events,
    tool: (profile, tool) => catalogs.tool(profile.fingerprint, 'stateless', tool),
    dropped: (reason) => dropped.of(name, reason).add(),
    abandoned: (connection) => events.abandoned(connection),
    forgotten: (want) => events.stateLost(want),
    superseded: (connection) => events.superseded(connection),
  });
  const connections = new ClientConnections(server, {
    clock,
    connector,
    quota: isOwnProcess(server) ? quota : null,
    starts,
    limits,
    clientGone: deps.clientGone ?? (() => false),
    eras,
    nobody,
    stopped: () => supervisor.state === 'stopping' || (isAtRest(supervisor.state) && supervisor.state !== 'unknown'),
    replicas: {
      random,
      logger,
      times,
      drainMs: times.drainMs,
      changed: () => observer.tell(),
      stateLost: (sessionId, era, cause) => {
        if (era === 'stateful') events.sessionLost(sessionId, cause);
      },
      ended: (key) => events.ended(key),
      recovery: recovered,
    },
    adopted: (connection, want) => {
      upkeep.useful(connection, want.profile);
      events.opened(connection);
    },
    swept: (swept) => events.swept(swept),
  });
  const { pool } = connections;
  const catalogs = new ServerCatalogs(
    server,
    {
      clock,
      logger,
      knownCatalogs,
      connectionFor: (profile, era) => runs.listingConnection(profile, era),
      isUp: () => supervisor.up,
      invalid: (item) => {
        const redacted = item.item === null ? null : logger.redact(item.item);
        deps.news?.listItemInvalid(name, { ...item, item: redacted, reason: logger.redact(item.reason) });
      },
      inspect: (catalog) => deps.inspect?.(catalog) ?? null,
      listed: (fingerprint, lists, key) => {
        if (lists.length > 0 || key !== null) deps.events.catalogChanged(name, fingerprint, lists, key);
        if (key === null) observer.listed();
      },
      isOwn: ({ era, tenancy }) => isOwnProcess(server) && era === 'stateful' && isExclusive(tenancy),
      hasRoom: () => pool.room === 'free',
    },
    remembered,
  );
  const upkeep = new ListUpkeep({
    server: name,
    clock,
    events: deps.events,
    catalogs,
    missed: (connection) => events.missed(connection),
  });
  const judged = new ServerHealth((reason) => {
    logger.warn('server_health', { health: reason === null ? 'healthy' : 'unhealthy', reason });
    part.healthTurned(reason === null ? null : logger.redact(reason));
    observer.tell();
  });
  const supervisor = new Supervisor({
    server: name,
    local,
    clock,
    random,
    times,
    misconfigured: server.misconfigured,
    mark: deps.startMarks?.of(name, server.connectionDigest),
    launch: async (attempt) => {
      if (starts === null) attempt.begin();
      try {
        return await runs.launch(attempt);
      } catch (error) {
        // Callers and events hear these words; they name commands and folders as they are used.
        if (error instanceof Error) error.message = logger.redact(error.message);
        throw error;
      }
    },
    halt: async () => {
      try {
        await runs.halt();
      } catch (error) {
        logger.warn('server_halt_failed', { error: String(error) });
      }
    },
    moved: (transition) => {
      const { to, from, reason, failure, at } = transition;
      judged.startedAnew();
      if (UP.has(to)) probe.begin();
      else probe.end();
      logger.info('server_state', { state: to, before: from, reason, failure });
      if (to === 'defect') logger.error('server_defect', { stack: stackOf(supervisor.error?.cause) });
      launches.moved(transition);
      readiness?.moved(to);
      const told = reason === null ? null : logger.redact(reason);
      part.moved({ from, to, reason: told, failure, challenge: supervisor.challenge, at });
      observer.tell();
    },
    beforeAuthRequired: (error) => {
      try {
        deps.beforeAuthRequired?.(observer.status(), challengeOf(error));
      } catch (cause) {
        logger.error('auth_required_hook_failed', { error: String(cause) });
      }
    },
    recovery: recovered,
  });
  const readiness = readinessOf(server, deps, () => supervisor);
  const launches = new LaunchReports({
    clock,
    logger,
    times,
    surroundings: deps.surroundings ?? { environment: {}, inContainer: false },
    server: () => observer.server,
  });
  const observer = new ServerObserver(server, {
    clock,
    events: deps.events,
    supervisor,
    catalogs,
    pool,
    replicas: connections.replicas,
    health: judged,
    redact: (text) => logger.redact(text),
    launches,
    times,
    story,
    phases,
  });
  const lost = new LostConnections(name, local, pool);
  const runs = new ServerRuns({
    clock,
    server: name,
    supervisor,
    connections,
    lost,
    catalogs,
    upkeep,
    observer,
    starts,
    nobody,
    ended: (key) => events.ended(key),
  });
  const replace = (connection: Connection, error: GatewayError, how: CloseReason) =>
    events.replace(connection, error, how);
  const health = new ConnectionHealth({ server: name, pingMs: times.pingMs, health: judged, remote: !local, replace });
  const probe = new HealthProbe({
    server: name,
    clock,
    health: judged,
    everyMs: () => observer.server.probeMs,
    pingMs: times.pingMs,
    each: isOwnProcess(server),
    connections: () => pool.connections(),
    gone: (connection, error) => replace(connection, error, local ? 'remove' : 'shutdown'),
  });
  events.attach({ connections, supervisor, lost, upkeep, health, observer });
  const shown = new ClientCatalogs({
    clock,
    logger,
    eras,
    connections,
    catalogs,
    up: (client) => runs.up(client),
    isUp: () => supervisor.up,
    onceBegun: (client) => runs.onceBegun(client),
    reached: () => phases === null || phases.reached,
    failing: () => supervisor.failing,
    startingSince: () => supervisor.startingSince,
  });
  const dispatcher = new Dispatcher({
    clock,
    random,
    limits,
    server: () => observer.server,
    ready: (client, method) => connections.ready(client, method),
    connection: (call, method) => {
      const { client } = call.exchange;
      return connections.whileWaiting(client, () => runs.connectionFor(client, method, call));
    },
    tool: (client, tool) => shown.tool(client, tool),
    relist: (client) => shown.refresh(client),
    answered: () => {
      health.answered();
      supervisor.proved();
    },
    failed: (error) => health.failed(error),
    unsent: (client) => health.unsent(connections.ready(client)),
    durations,
  });
  const boundary = new ErrorBoundary(name, logger, supervisor);
  return {
    boundary,
    supervisor,
    runs,
    connections,
    events,
    lost,
    catalogs,
    shown,
    upkeep,
    observer,
    probe,
    dispatcher,
  };
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/**
 * What is reached by a URL is there or is not: nothing has to be fetched before it starts (S3.3). It is given longer to
 * answer the probe, because `initialize` begins a session there.
 */
function remoteTimes(times: UpstreamTimes): UpstreamTimes {
  const probeSilenceMs = Math.max(times.probeSilenceMs, REMOTE_SILENCE_MS);
  return { ...times, probeSilenceMs, startupMs: Math.min(times.startupMs, times.remoteStartupMs) };
}

/** null for what is started here, and is there when its start is over. */
function readinessOf(
  { transport }: Server,
  { clock, reachable }: UpstreamSetDeps,
  supervisor: () => Supervisor,
): ReadinessWatch | null {
  if (reachable === undefined || !('url' in transport)) return null;
  const { url } = transport;
  const attempt = () =>
    void supervisor()
      .ready()
      .catch(() => {});
  return new ReadinessWatch({ clock, reachable: () => reachable(url), attempt });
}
