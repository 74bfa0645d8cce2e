import { createHash } from 'node:crypto';
import { Cluster } from '../cluster/cluster.ts';
import { SharedTaskRecords } from '../cluster/sessions/shared-task-records.ts';
import type { ConfigResult } from '../config/load-config.ts';
import { Downstream } from '../downstream/downstream.ts';
import { KeyAuthenticator } from '../downstream/identity/auth.ts';
import { Gateway } from '../gateway/gateway.ts';
import { Sealer } from '../gateway/sealer.ts';
import { BodyBudget } from '../http/context/body-budget.ts';
import { isListening } from '../http/listener/is-listening.ts';
import { type Clock, systemClock } from '../model/clock.ts';
import { dropKept } from '../model/pooled-buffers.ts';
import type { SessionRecords, Upstreams } from '../model/ports.ts';
import { type Random, systemRandom } from '../model/random.ts';
import { sealingOf } from '../model/sealing.ts';
import { PinBook, type TrustMarks } from '../registry/pin-book.ts';
import { Registry } from '../registry/registry.ts';
import { RunTimeServers } from '../registry/run-time-servers.ts';
import { StoredServers } from '../registry/stored-definitions.ts';
import type { DataFolder } from '../store/data-folder.ts';
import { SqliteEventLog } from '../store/event-log.ts';
import { SqliteEraVerdicts, SqliteSessionRecords, SqliteUpstreamSessions } from '../store/remembered.ts';
import type { RunTimeStore } from '../store/run-time-store/run-time-store.ts';
import { StoredPins } from '../store/run-time-store/stored-pins.ts';
import { StateFile } from '../store/state-file.ts';
import { SqliteKnownCatalogs, SqliteTaskRecords } from '../store/structured-records.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { ServerEvents } from '../telemetry/server-events.ts';
import { ServerLogs } from '../telemetry/server-logs.ts';
import { insideContainer } from '../upstream/process/environment.ts';
import { ProcessRecord, sweep } from '../upstream/process/process-group.ts';
import { Reaper } from '../upstream/process/reaper.ts';
import { StartMarks } from '../upstream/supervision/start-marks.ts';
import { UpstreamSet } from '../upstream/upstream-set.ts';
import type { AppOptions } from './app-options.ts';
import type { ClusterConnection } from './cluster/cluster-connection.ts';
import { registerClusterGauges } from './cluster/cluster-gauges.ts';
import { desiredNames } from './cluster/desired-names.ts';
import { acrossNodes, sharedSessions } from './cluster/shared-sessions.ts';
import { stateEverywhere } from './cluster/state-everywhere.ts';
import { registerGauges } from './gauges.ts';
import { bodyBudgetBytes } from './memory/memory-limit.ts';
import { MemoryWatch } from './memory/memory-watch.ts';
import { observed } from './observed-events.ts';
import { Operations } from './operations.ts';
import { Operator, operatorProfile } from './operator.ts';
import { OwnCalls } from './own-calls.ts';
import { announcing } from './run-time-store/follow-hints.ts';
import { openRunTimeStore } from './run-time-store/open-run-time-store.ts';
import { transports } from './transports.ts';
import { productVersion } from './version.ts';

/** The rooms of one gateway, built and joined; nothing listens and nothing has been started. */
export interface Rooms {
  readonly options: AppOptions;
  readonly loaded: Extract<ConfigResult, { ok: true }>;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly folder: DataFolder | null;
  readonly controlToken: string;
  readonly execToken: string;
  /** The desired state in force. */
  readonly registry: Registry;
  readonly authenticator: KeyAuthenticator;
  readonly records: SessionRecords;
  /** What was decided at run time. */
  readonly runTimeStore: RunTimeStore;
  /** Other nodes write to it too. */
  readonly storeShared: boolean;
  /** Why no operator can decide at this node what may be offered; null where one can. */
  readonly undecidable: string | null;
  readonly pins: PinBook;
  readonly runTime: RunTimeServers;
  /** The servers of this node. */
  readonly upstreams: UpstreamSet;
  /** This node's part in its cluster; null for a lone one. */
  readonly cluster: Cluster | null;
  /** How it is joined to that. */
  readonly connection: ClusterConnection | null;
  /** All servers there are to call; on a lone node those of this node. */
  readonly everywhere: Upstreams;
  readonly gateway: Gateway;
  readonly downstream: Downstream;
  /** Calls that no client has sent. */
  readonly ownCalls: OwnCalls;
  readonly operator: Operator;
  /** For the tracker; null without one. */
  readonly operations: Operations | null;
  readonly serverEvents: ServerEvents;
  readonly serverLogs: ServerLogs;
  readonly memory: MemoryWatch;
  /** For all its listeners. */
  readonly bodies: BodyBudget;
  /** Writes state, lets go of the data folder. After everything that uses the rooms has ended. */
  close(): Promise<void>;
}

const KEY_BYTES = 32;

/** Builds everything and joins it. `folder` is held already; null keeps state in memory only. */
export async function buildRooms(
  options: AppOptions,
  loaded: Rooms['loaded'],
  folder: DataFolder | null,
  connection: ClusterConnection | null = null,
): Promise<Rooms> {
  const { logger } = options;
  const clock = systemClock;
  const random = systemRandom;
  const metrics = new Metrics();
  const operations = options.tracker == null ? null : new Operations(options.tracker, clock, logger);

  // First of all: damaged, it stops the start, and nothing else was begun.
  const opened = openRunTimeStore(options, loaded.state, clock, logger);
  const runTimeStore =
    opened.shared && connection !== null ? announcing(opened.runTimeStore, connection.bus) : opened.runTimeStore;
  const env = options.load.env;
  const runTime = new RunTimeServers({
    stored: new StoredServers(runTimeStore),
    clock,
    logger,
    env,
    folder: options.load.cwd,
    refusal: opened.refusal,
    shared: opened.shared,
    current: () => registry.state,
    others: {
      server: (name) => cluster?.known.server(name) ?? null,
      against: (server) => cluster?.known.against(server) ?? [],
    },
  });
  await runTime.refresh();
  const registry: Registry = new Registry(runTime.over(loaded.state));
  const stateFile = new StateFile({ path: folder?.file('state.db') ?? ':memory:', clock, logger });
  const events = new SqliteEventLog(stateFile, clock);
  const processFile = folder?.file('processes.json') ?? null;
  if (processFile !== null) {
    const stopped = await sweep(processFile);
    if (stopped.length > 0) logger.warn('leftover_processes_stopped', { groups: stopped });
  }
  const record = processFile === null ? null : new ProcessRecord(processFile);
  const reaper = new Reaper({ logger, record });
  const startMarks = folder === null ? null : new StartMarks(folder.file('starts.json'));

  const info = { name: 'trunkline', title: 'Trunkline', version: productVersion() };
  const installation = installationKey(stateFile, random);
  // What one node of a cluster sealed, another one may have to open.
  const keys = connection === null ? [installation] : [connection.key, ...(connection.previousKeys ?? [])];
  const sealing = sealingOf(keys, (key) => new Sealer(key));
  const pins = await PinBook.open({
    records: new StoredPins(runTimeStore),
    shared: opened.shared,
    marks: trustMarks(stateFile),
    clock,
    logger,
    desired: desiredNames(
      () => registry.state,
      clock,
      () => cluster?.upstreams ?? null,
    ),
  });
  const ownTasks = new SqliteTaskRecords(stateFile);
  const sharedTasks =
    connection === null ? null : new SharedTaskRecords({ ...connection, clock, logger, sealing, own: ownTasks });
  const gateway = new Gateway({
    clock,
    logger,
    metrics,
    ...(operations === null ? {} : { ended: (...request) => operations.request(...request) }),
    pins,
    info,
    keys,
    firstListWaitMs: () => registry.state.firstListWaitMs,
    random,
    taskRecords: sharedTasks ?? ownTasks,
    maxTimeoutMs: () => registry.state.maxTimeoutMs,
    onSessionEnded(sessionId) {
      runTime.sessionEnded(sessionId);
      cluster?.clients.sessionEnded(sessionId);
    },
    ...(connection === null
      ? {}
      : {
          givenUp: (...what) => cluster?.clients.givenUp(...what),
          subscribed: (...what) => cluster?.clients.subscribed(...what),
          subscribedElsewhere: (principal) => cluster?.clients.subscribedElsewhere(principal) ?? 0,
        }),
  });
  const run = random.hex(4);
  const serverEvents = new ServerEvents(run, () => clock.wall(), options.observer);
  const serverLogs = new ServerLogs(logger, run);
  const gatewayEvents = options.observer === undefined ? gateway : observed(gateway, options.observer, operations);
  const cluster =
    connection === null
      ? null
      : new Cluster({
          ...connection,
          clock,
          random,
          logger,
          version: productVersion(),
          sealing,
          events: gatewayEvents,
          get local() {
            return upstreams;
          },
        });
  const upstreams: UpstreamSet = new UpstreamSet({
    clock,
    random,
    logger,
    metrics,
    events: cluster?.events ?? gatewayEvents,
    ownership: cluster?.ownership,
    sharedUpstreamSessions: cluster?.upstreamSessions,
    news: serverEvents,
    inspect: (catalog) => gateway.inspect(catalog),
    knownCatalogs: new SqliteKnownCatalogs(stateFile),
    eraVerdicts: new SqliteEraVerdicts(stateFile),
    upstreamSessions: new SqliteUpstreamSessions(stateFile, sealing),
    startMarks,
    openTransport: transports({
      clock,
      random,
      logger,
      guard: reaper,
      env,
      owner: createHash('sha256').update(installation).update('containers').digest('hex').slice(0, 16),
      memoryServers: options.memoryServers ?? new Map(),
    }),
    maxProcesses: loaded.state.maxProcesses,
    maxTimeoutMs: loaded.state.maxTimeoutMs,
    pool: loaded.state.pool,
    clientGone: (sessionId) => downstream.clientGone(sessionId),
    beforeAuthRequired: (status, challenge) => options.observer?.beforeAuthRequired?.(status, challenge),
    surroundings: { environment: env, inContainer: insideContainer(env), reachable: isListening },
    clientInfo: JSON.stringify(info),
  });
  const shared =
    connection === null
      ? null
      : sharedSessions(connection, { clock, logger, gateway, cluster, downstream: () => downstream });
  const records = shared ?? new SqliteSessionRecords(stateFile);
  const authenticator = new KeyAuthenticator(loaded.state);
  const memory = new MemoryWatch({
    logger,
    shrink: () => {
      gateway.shrink();
      dropKept();
    },
  });
  const everywhere = cluster?.upstreams ?? upstreams;
  const downstream: Downstream = new Downstream({
    keys,
    clock,
    random,
    logger,
    core: gateway,
    authenticator,
    records,
    events,
    state: cluster === null ? () => registry.state : stateEverywhere(() => registry.state, everywhere),
    memoryScarce: () => memory.look() !== 'ample',
    ...(cluster === null ? {} : acrossNodes(cluster)),
  });
  cluster?.streams.attach(downstream);
  cluster?.clients.attach(downstream, gateway);
  gateway.attach(everywhere, cluster?.streams ?? downstream);
  const bodies = new BodyBudget(bodyBudgetBytes(loaded.state.listen.maxBodyBytes));
  const gauges = registerGauges(metrics, upstreams, downstream, memory, bodies);
  registerClusterGauges(metrics, cluster, connection);
  const ownCalls = new OwnCalls(gateway);
  await (cluster ?? upstreams).apply(registry.state.servers);

  return {
    options,
    loaded,
    clock,
    random,
    logger,
    metrics,
    folder,
    controlToken: folder?.controlToken(() => random.hex(KEY_BYTES)) ?? random.hex(KEY_BYTES),
    execToken: folder?.execToken(() => random.hex(KEY_BYTES)) ?? random.hex(KEY_BYTES),
    registry,
    authenticator,
    records,
    runTimeStore,
    storeShared: opened.shared,
    undecidable: opened.undecidable,
    pins,
    runTime,
    upstreams,
    cluster,
    connection,
    everywhere,
    gateway,
    downstream,
    serverEvents,
    serverLogs,
    bodies,
    ownCalls,
    operations,
    operator: new Operator(ownCalls, random, operatorProfile(JSON.stringify(info))),
    memory,
    async close() {
      // What this node owned is free for others without waiting for what is still to be written.
      await Promise.all([shared?.close(), sharedTasks?.close(), cluster?.close()]);
      await connection?.close();
      gauges.close();
      serverLogs.close();
      memory.close();
      await reaper.close();
      runTime.close();
      await runTimeStore.close();
      events.close();
      stateFile.close();
      record?.close();
      startMarks?.close();
      folder?.release();
    },
  };
}

/** In the other file of the two: only who loses both of them starts from nothing unnoticed. */
function trustMarks(state: StateFile): TrustMarks {
  return {
    has: (server) => state.get('trusted', server) !== null,
    add: (server) => state.put('trusted', server, Buffer.from('1')),
    delete: (server) => state.delete('trusted', server),
  };
}

/** Seals cursors and task ids; kept, so that they stay good over a restart. Lost with the state file, and no harm done. */
function installationKey(state: StateFile, random: Random): Buffer {
  const known = state.get('key', 'seal');
  if (known !== null && known.length === KEY_BYTES) return known;
  const key = Buffer.from(random.hex(KEY_BYTES), 'hex');
  state.put('key', 'seal', key);
  return key;
}
