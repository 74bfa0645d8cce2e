import { createHash } from 'node:crypto';
import { Cluster } from '../cluster/cluster.ts';
import { SharedSessionRecords } from '../cluster/sessions/shared-session-records.ts';
import { SharedTaskRecords } from '../cluster/sessions/shared-task-records.ts';
import type { ConfigResult } from '../config/load-config.ts';
import { ConsoleLogins } from '../control/console-logins.ts';
import { Leases } from '../credentials/lease.ts';
import { Secrets } from '../credentials/secrets.ts';
import { Downstream } from '../downstream/downstream.ts';
import { KeyAuthenticator } from '../downstream/identity/auth.ts';
import { Gateway } from '../gateway/gateway.ts';
import { RecordSealing, Sealer } from '../gateway/sealer.ts';
import { Resolver } from '../http/client/resolver.ts';
import { BodyBudget } from '../http/context/body-budget.ts';
import { isListening } from '../http/listener/listen-error.ts';
import { systemClock } from '../model/clock.ts';
import { clearPool } from '../model/pooled-buffers.ts';
import type { SessionRecords, Upstreams } from '../model/ports.ts';
import { type Random, systemRandom } from '../model/random.ts';
import { sealingOf } from '../model/sealing.ts';
import { PinBook, type TrustMarks } from '../registry/pin-book.ts';
import { Registry } from '../registry/registry.ts';
import { RunTimeServers } from '../registry/run-time-servers.ts';
import { StoredServers } from '../registry/stored-definitions.ts';
import type { DataFolder } from '../store/data-folder.ts';
import { SqliteEventLog } from '../store/event-log.ts';
import { KeptSubscriptions } from '../store/kept-subscriptions.ts';
import { SqliteEraVerdicts, SqliteKinds, SqliteSessionRecords, SqliteUpstreamSessions } from '../store/remembered.ts';
import { StoredPins } from '../store/run-time-store/stored-pins.ts';
import { StateFile } from '../store/state-file.ts';
import { SqliteKnownCatalogs, SqliteTaskRecords } from '../store/structured-records.ts';
import { CallLog } from '../telemetry/call-log.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Recorder } from '../telemetry/recorder/recorder.ts';
import { newServerEvents } from '../telemetry/server-events.ts';
import { ServerLogs } from '../telemetry/server-logs.ts';
import { insideContainer } from '../upstream/process/environment.ts';
import { ProcessRecord, sweep } from '../upstream/process/process-group.ts';
import { Reaper } from '../upstream/process/reaper.ts';
import { StartRecords } from '../upstream/supervision/start-records.ts';
import { UpstreamSet } from '../upstream/upstream-set.ts';
import type { AppOptions } from './app-options.ts';
import { acrossNodes, clusterDesiredState, followSessions } from './cluster/across-nodes.ts';
import type { ClusterConnection } from './cluster/cluster-connection.ts';
import { registerClusterGauges } from './cluster/cluster-gauges.ts';
import { desiredNames } from './cluster/desired-names.ts';
import { formerPeer } from './cluster/former-peer.ts';
import { serveRecordings, shareRecording } from './cluster/recordings-of-nodes.ts';
import { reachableAt, serves } from './cluster/serving-nodes.ts';
import { registerGauges } from './gauges.ts';
import { bodyBudgetBytes } from './memory/memory-limit.ts';
import { MemoryWatch } from './memory/memory-watch.ts';
import { observed } from './observed-events.ts';
import { openCredentials } from './open-credentials.ts';
import { openTelemetry } from './open-telemetry.ts';
import { Operations } from './operations.ts';
import { countedCalls, Operator, operatorProfile } from './operator.ts';
import { openStores } from './run-time-store/open-run-time-store.ts';
import { credentialKeys, KeyRotation } from './run-time-store/stored-secrets.ts';
import { transports } from './transports.ts';
import { productVersion } from './version.ts';

const KEY_BYTES = 32;

/** The connected components of one gateway. */
export type Components = Awaited<ReturnType<typeof buildComponents>>;

/**
 * Builds and connects the components; listens nowhere and starts no server. `folder` is held; null keeps state in memory.
 * `opened` gets the parts that the caller must close if this rejects, the last one first.
 */
export async function buildComponents(
  options: AppOptions,
  loaded: Extract<ConfigResult, { ok: true }>,
  folder: DataFolder | null,
  connection: ClusterConnection | null,
  opened: { close(): unknown }[],
) {
  const { logger, observer } = options;
  const { env, cwd } = options.load;
  const [clock, random, metrics] = [systemClock, systemRandom, new Metrics()];
  const operations = options.tracker == null ? null : new Operations(options.tracker, clock, logger);

  // Opened first: if the store is damaged, the start fails before anything else has begun.
  const stores = await openStores(options, loaded.state, connection, clock, logger);
  const { runTimeStore, records, folderStore, shared, refusal, undecidable } = stores;
  const telemetry = openTelemetry(options, loaded.state, connection, { clock, random, logger, metrics });
  opened.push(stores, telemetry);
  const { tracer } = telemetry;
  const source = credentialKeys(options, loaded.state, connection, random);
  const recordSealing = new RecordSealing(source, random);
  const keyRotation = new KeyRotation({ source, records, sealing: recordSealing, clock, logger });
  const settled = options.state === 'data' || options.joins === true ? keyRotation.settle() : null;
  // In a cluster the start does not wait, because other nodes may hold records for a while.
  if (connection === null) await settled;
  const secrets = new Secrets({ records, sealing: recordSealing, clock, logger });
  await secrets.refresh();
  const registry = new Registry(loaded.state);
  const stored = new StoredServers(runTimeStore);
  const runTime = new RunTimeServers({
    stored,
    clock,
    logger,
    env,
    secrets: secrets.values,
    folder: cwd,
    refusal,
    shared,
    desired: registry,
    get others() {
      return cluster?.known ?? null;
    },
  });
  opened.push(runTime);
  if (options.overlay !== undefined) registry.addLayer(options.overlay);
  await runTime.refresh();
  registry.begin();
  const stateFile = new StateFile({ path: folder?.file('state.db') ?? ':memory:', clock, logger });
  const events = new SqliteEventLog(stateFile, clock);
  // The stores are closed before these.
  opened.unshift(stateFile, events);
  const record = folder === null ? null : await processRecord(folder.file('processes.json'), logger);
  const reaper = new Reaper({ logger, record });
  opened.push(reaper);
  const startRecords = folder === null ? null : new StartRecords(folder.file('starts.json'), clock);

  const info = { name: 'trunkline', title: 'Trunkline', version: productVersion() };
  const installation = installationKey(stateFile, random);
  const newToken = (): string => random.hex(KEY_BYTES);
  const controlToken = folder?.token('control.token', newToken) ?? newToken();
  const execToken = folder?.token('exec.token', newToken) ?? newToken();
  // Other nodes of a cluster must be able to open what this node seals.
  const keys = connection === null ? [installation] : [connection.key, ...(connection.previousKeys ?? [])];
  const sealing = sealingOf(keys, (key) => new Sealer(key));
  const [builtAt, resolver, authenticator] = [clock.now(), new Resolver({ clock }), new KeyAuthenticator(loaded.state)];
  const bodies = new BodyBudget(bodyBudgetBytes(loaded.state.listen.maxBodyBytes));
  const { credentials, logins, loginPages, signIns, ...credentialResources } = await openCredentials({
    clock,
    random,
    logger,
    registry,
    records,
    sealing: recordSealing,
    resolver,
    guard: reaper,
    env,
    authenticator,
    bodies,
    pagesOnDemand: options.state === 'instance',
    changed: (server, principal, gone) => upstreams.credentialChanged(server, principal, gone),
    loginEnded: (server, end) => serverEvents.loginEnded(server, end),
  });
  opened.push(credentialResources);
  const pins = await PinBook.open({
    records: new StoredPins(runTimeStore, random),
    shared,
    marks: trustMarks(stateFile),
    kinds: new SqliteKinds(stateFile),
    clock,
    logger,
    desired: () => desiredNames(registry.state, cluster, clock.now() - builtAt),
  });
  const [ownTasks, run] = [new SqliteTaskRecords(stateFile), random.hex(4)];
  const nodes = { others: () => cluster!.peers.others() };
  const sharedTasks =
    connection === null ? null : new SharedTaskRecords({ ...connection, clock, logger, sealing, nodes, own: ownTasks });
  const calls = new CallLog(run, connection?.node ?? null, logger);
  const gateway = new Gateway({
    clock,
    logger,
    metrics,
    calls,
    tracer,
    ...(operations === null ? {} : { ended: (...request) => operations.request(...request) }),
    pins,
    info,
    keys,
    desired: registry,
    random,
    logins: loginPages,
    taskRecords: sharedTasks ?? ownTasks,
    onSessionEnded: (sessionId) => {
      runTime.sessionEnded(sessionId);
      recorder.sessionEnded(sessionId);
    },
    listChanged: (list, server) => serverEvents.changed(list, server),
    get upstreams() {
      return allUpstreams;
    },
    get streams() {
      return cluster?.streams ?? downstream;
    },
    get elsewhere() {
      return cluster?.clients ?? kept;
    },
  });
  let reachable: readonly string[] = [];
  const serverEvents = newServerEvents(run, () => clock.wall(), observer);
  const recorder = new Recorder({
    clock,
    random,
    logger,
    events: serverEvents,
    folder: folder?.file('recordings') ?? null,
    nodes: connection && {
      node: connection.node,
      share: (part) => shareRecording(connection.bus, cluster!, part, logger),
    },
  });
  if (connection !== null) serveRecordings(connection.bus, recorder);
  const serverLogs = new ServerLogs(logger, run);
  const gatewayEvents = observer === undefined ? gateway : observed(gateway, observer, operations, registry);
  const memory = new MemoryWatch({
    logger,
    shrink: () => {
      gateway.shrink();
      clearPool();
    },
  });
  const cluster: Cluster | null =
    connection === null
      ? null
      : new Cluster({
          ...connection,
          clock,
          random,
          logger,
          version: info.version,
          formerPeer: formerPeer(stateFile, folder, connection.bus.peer),
          sealing,
          get addresses() {
            return reachable;
          },
          serves,
          memory,
          events: gatewayEvents,
          openers: connection.sharedProcesses === 'session' ? () => sharedRecords : undefined,
          gateway,
          get local() {
            return upstreams;
          },
          get downstream() {
            return downstream;
          },
        });
  const kept: KeptSubscriptions | null =
    cluster === null ? new KeptSubscriptions({ stateFile, clock, gateway, downstream: () => downstream }) : null;
  const sharedRecords: SharedSessionRecords | null =
    connection === null || cluster === null
      ? null
      : new SharedSessionRecords({ ...connection, clock, logger, nodes: cluster.peers });
  const sessionRecords: SessionRecords = sharedRecords ?? new SqliteSessionRecords(stateFile);
  const downstream: Downstream = new Downstream({
    keys,
    clock,
    random,
    logger,
    metrics,
    core: gateway,
    authenticator,
    upstreams: { knownCatalog: (...of) => allUpstreams.knownCatalog(...of) },
    records: sessionRecords,
    events,
    state: cluster === null ? () => registry.state : clusterDesiredState(() => registry.state, cluster.upstreams),
    memoryScarce: () => memory.refresh() !== 'ample',
    wires: recorder.wires,
    ...(kept === null ? acrossNodes(cluster!) : { onStreamOpened: kept.opened }),
  });
  const owner = createHash('sha256').update(installation).update('containers').digest('hex').slice(0, 16);
  const upstreams: UpstreamSet = new UpstreamSet({
    clock,
    random,
    logger,
    metrics,
    tracer,
    wires: recorder.wires,
    events: cluster?.events ?? gatewayEvents,
    ownership: cluster?.ownership,
    sharedUpstreamSessions: cluster?.upstreamSessions,
    listener: serverEvents,
    inspect: (catalog) => gateway.inspect(catalog),
    knownCatalogs: new SqliteKnownCatalogs(stateFile),
    eraVerdicts: new SqliteEraVerdicts(stateFile),
    upstreamSessions: new SqliteUpstreamSessions(stateFile, sealing),
    startRecords,
    openTransport: transports({
      clock,
      random,
      logger,
      credentials: new Leases(credentials),
      resolver,
      guard: reaper,
      env,
      owner,
      memoryServers: options.memoryServers ?? new Map(),
    }),
    maxProcesses: loaded.state.maxProcesses,
    maxTimeoutMs: loaded.state.maxTimeoutMs,
    pool: loaded.state.pool,
    clientGone: (sessionId) => downstream.clientGone(sessionId),
    beforeAuthRequired: (status, challenge) => observer?.beforeAuthRequired?.(status, challenge),
    surroundings: { environment: env, inContainer: insideContainer(env), reachable: isListening },
    clientInfo: JSON.stringify(info),
  });
  const allUpstreams: Upstreams = cluster?.upstreams ?? upstreams;
  if (sharedRecords !== null) followSessions(sharedRecords, downstream, gateway);
  const gauges = registerGauges(metrics, upstreams, downstream, memory, bodies);
  opened.push(memory, serverLogs, gauges, recorder);
  registerClusterGauges(metrics, cluster, connection);
  const ownCalls = countedCalls(gateway);
  await (cluster ?? upstreams).apply(registry.state.servers);

  return {
    options,
    loaded,
    clock,
    random,
    logger,
    metrics,
    folder,
    controlToken,
    console: new ConsoleLogins(clock, controlToken, loaded.state.control),
    execToken,
    registry,
    authenticator,
    records: sessionRecords,
    /** `storeShared`: other nodes write to it too. `undecidable`: why operators cannot decide here; null if they can. */
    runTimeStore,
    storeShared: shared,
    folderStore,
    undecidable,
    pins,
    runTime,
    secrets,
    keyRotation,
    credentials,
    logins,
    loginPages,
    signIns,
    /** The servers of this node. */
    upstreams,
    /** This node's part in the cluster, and its connection; null for a lone gateway. */
    cluster,
    connection,
    /** Sets the addresses at which other nodes reach the listener, once it is open. */
    setListenAddress(mcpUrl: string, host: string): void {
      reachable = reachableAt(mcpUrl, host);
    },
    /** The servers of all nodes; for a lone gateway those of this node. */
    allUpstreams,
    gateway,
    downstream,
    serverEvents,
    stateFile,
    serverLogs,
    calls,
    bodies,
    ownCalls,
    /** Reports to the tracker; null without one. */
    operations,
    operator: new Operator(ownCalls, random, operatorProfile(JSON.stringify(info))),
    memory,
    recorder,
    /** Writes state and releases the data folder. Called after everything that uses the components has ended. */
    async close(): Promise<void> {
      // In parallel: other nodes can take the claims of this node before its pending writes are stored.
      await Promise.all([sharedRecords?.close(), sharedTasks?.close(), cluster?.close()]);
      await connection?.close();
      for (const part of opened.toReversed()) await part.close();
      startRecords?.close();
      folder?.release();
    },
  };
}

/** Stops the processes that an earlier gateway of the folder left behind. */
async function processRecord(file: string, logger: Logger): Promise<ProcessRecord> {
  const stopped = await sweep(file);
  if (stopped.length > 0) logger.warn('leftover_processes_stopped', { groups: stopped });
  return new ProcessRecord(file);
}

/** Kept in the state file, apart from the pins, so that the loss of one of the two files is noticed. */
function trustMarks(state: StateFile): TrustMarks {
  return {
    has: (server) => state.get('trusted', server) !== null,
    add: (server) => state.put('trusted', server, Buffer.from('1')),
    delete: (server) => state.delete('trusted', server),
  };
}

/** Key for cursors, task ids and the owner label of containers; stored, so that they stay valid after a restart. */
function installationKey(state: StateFile, random: Random): Buffer {
  const known = state.get('key', 'seal');
  if (known !== null && known.length === KEY_BYTES) return known;
  const key = Buffer.from(random.hex(KEY_BYTES), 'hex');
  state.put('key', 'seal', key);
  return key;
}
