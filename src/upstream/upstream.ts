import { PhaseTimes } from '../http/client/phase-times.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import type { GatewayError, Room } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { StateLoss } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import { isOwnProcess } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { Connector } from './connection/connector.ts';
import { isExclusive } from './connection/session-key.ts';
import { SpokenEras } from './connection/spoken-eras.ts';
import { ConnectionEvents } from './connection-events.ts';
import { Dispatcher } from './dispatcher.ts';
import { ErrorBoundary } from './error-boundary.ts';
import { ConnectionHealth, HealthProbe } from './health/health-probe.ts';
import { ServerHealth } from './health/server-health.ts';
import { ClientCatalogs } from './lists/client-catalogs.ts';
import { ListUpkeep } from './lists/list-upkeep.ts';
import type { RememberedCatalog } from './lists/server-catalogs.ts';
import { ServerCatalogs } from './lists/server-catalogs.ts';
import { ClientConnections } from './pool/client-connections.ts';
import { LostConnections } from './pool/lost-connections.ts';
import type { ProcessQuota } from './pool/process-quota.ts';
import { ServerContext } from './server-context.ts';
import { ServerRuns } from './server-runs.ts';
import { ServerObserver } from './status/server-observer.ts';
import type { ServerStory, StoryPart } from './status/server-story.ts';
import { LaunchReports } from './supervision/launch-reports.ts';
import { ReadinessWatch } from './supervision/readiness-watch.ts';
import type { StartQueue } from './supervision/start-queue.ts';
import { Supervisor } from './supervision/supervisor.ts';
import type { CloseReason } from './transport/transport.ts';
import type { NodeLimits, UpstreamSetDeps, UpstreamTimes } from './upstream-deps.ts';

/** What all servers of a node share. */
export interface NodeShared {
  readonly deps: UpstreamSetDeps;
  readonly times: UpstreamTimes;
  readonly limits: NodeLimits;
  readonly quota: ProcessQuota;
  /** Where processes start. */
  readonly starts: StartQueue;
}

/**
 * The running side of one server on this node: supervisor, session pool, catalogs, status. A call on an established
 * connection goes straight to it; everything else (first use, crash, restart) waits for the supervisor.
 */
export class Upstream {
  readonly #context: ServerContext;
  readonly #supervisor: Supervisor;
  readonly #events: ConnectionEvents;
  readonly #connections: ClientConnections;
  readonly #catalogs: ServerCatalogs;
  readonly #upkeep: ListUpkeep;
  readonly #lost: LostConnections;
  readonly #observer: ServerObserver;
  readonly #runs: ServerRuns;
  readonly #probe: HealthProbe;
  readonly #shown: ClientCatalogs;
  readonly #dispatcher: Dispatcher;
  readonly #boundary: ErrorBoundary;
  /** What it contributes to its server's story. */
  readonly part: StoryPart;
  #ended: Promise<unknown> = Promise.resolve();

  constructor(server: Server, node: NodeShared, story: ServerStory, remembered: Iterable<RememberedCatalog>) {
    const { deps, limits, times } = node;
    const { clock, random, reachable } = deps;
    const { transport, name, connectionDigest, misconfigured } = server;
    const context = new ServerContext(server, deps, limits, times);
    const { logger, local } = context;
    const ownProcess = isOwnProcess(server);
    const starts = ownProcess ? node.starts : null;
    const phases = 'url' in transport ? new PhaseTimes() : null;
    const durations = deps.metrics.histogram('mcp_client_operation_duration_seconds', 'Calls to servers, in seconds.', [
      'mcp_method_name',
      'server',
    ]);
    this.#context = context;
    this.part = story.part();
    // The parts report here, and get the others by reference. Nothing is reported before `attach`.
    const events = new ConnectionEvents(context, this.part);
    const mark = deps.startMarks?.of(name, connectionDigest);
    const supervisor = new Supervisor(
      { server: name, local, clock, random, times: context.times, misconfigured, mark },
      events,
    );
    const eras = new SpokenEras(deps.eraVerdicts, connectionDigest);
    const connector = new Connector(context, eras, phases, events);
    const quota = ownProcess ? node.quota : null;
    const connections = new ClientConnections(context, { connector, eras, supervisor, quota, starts }, events);
    const { pool } = connections;
    const catalogs = new ServerCatalogs(context, supervisor, pool, events, remembered);
    const upkeep = new ListUpkeep(context, catalogs, events);
    const judged = new ServerHealth((reason) => events.healthTurned(reason));
    const health = new ConnectionHealth(context, judged, events);
    const probe = new HealthProbe(context, pool, judged, events);
    const launches = new LaunchReports(context);
    const observer = new ServerObserver({
      context,
      supervisor,
      catalogs,
      connections,
      health: judged,
      launches,
      story,
      phases,
    });
    const lost = new LostConnections(name, local, pool);
    const runs = new ServerRuns({ context, supervisor, connections, lost, catalogs, upkeep, observer, events, starts });
    const looks = reachable !== undefined && 'url' in transport ? () => reachable(transport.url) : null;
    const readiness = looks === null ? null : new ReadinessWatch(clock, supervisor, looks);
    events.attach({
      connections,
      supervisor,
      lost,
      upkeep,
      catalogs,
      runs,
      judged,
      health,
      probe,
      observer,
      launches,
      readiness,
    });
    const shown = new ClientCatalogs({ context, eras, connections, catalogs, supervisor, runs, phases });
    this.#supervisor = supervisor;
    this.#events = events;
    this.#connections = connections;
    this.#catalogs = catalogs;
    this.#upkeep = upkeep;
    this.#observer = observer;
    this.#lost = lost;
    this.#runs = runs;
    this.#probe = probe;
    this.#shown = shown;
    this.#dispatcher = new Dispatcher({ context, connections, runs, shown, health, supervisor, durations });
    this.#boundary = new ErrorBoundary(name, logger, supervisor);
  }

  get server(): Server {
    return this.#context.server;
  }

  /** One that is suspended is disabled in fact, and the other way round; of one not started yet nothing can be said. */
  get asItRuns(): Server {
    const { server } = this;
    const { state } = this.#supervisor;
    if (state === 'unknown' || state === 'stopping') return server;
    const enabled = state !== 'suspended';
    return server.enabled === enabled ? server : { ...server, enabled };
  }

  /** Takes over settings that need no new connection. */
  update(server: Server): void {
    this.#boundary.run(() => {
      const { probeMs } = this.#context.server;
      this.#context.server = server;
      this.#connections.replicas.update();
      this.#observer.tell();
      if (server.probeMs !== probeMs && this.#supervisor.up) this.#probe.begin();
    }, nothing);
  }

  start(): Promise<void> {
    return this.#boundary.later(() => this.#supervisor.start(), nothing);
  }

  /** It was not started yet, and no start is due. */
  get untouched(): boolean {
    const { state, startingSince } = this.#supervisor;
    return state === 'unknown' && startingSince === null;
  }

  /** Its start is to come, once those before it have begun. */
  due(): void {
    this.#supervisor.due();
  }

  suspend(): Promise<void> {
    return this.#boundary.later(() => this.#supervisor.stop('suspended'), nothing);
  }

  /** Until it is restarted. */
  stop(): Promise<void> {
    return this.#boundary.later(() => this.#supervisor.stop('stopped'), nothing);
  }

  /** Closes the connection with this label of `ConnectionStatus.key`. False where there is none. */
  closeConnection(label: string): boolean {
    return this.#connections.pool.closeLabelled(label);
  }

  restart(): Promise<void> {
    return this.#boundary.later(() => {
      const rolling = this.#supervisor.up ? this.#connections.replicas.restart() : null;
      if (rolling !== null) return rolling;
      this.#lost.clear();
      return this.#supervisor.restart();
    }, nothing);
  }

  call(request: Message, exchange: Exchange): Promise<Outcome> {
    return this.#boundary.run(() => this.#dispatcher.call(request, exchange), failed);
  }

  notify(notification: Message, client: ClientProfile): void {
    this.#boundary.run(() => {
      const connection = this.#connections.ready(client);
      if (connection === null || !isExclusive(connection.tenancy)) return;
      if (connection.era === notification.era) connection.notify(notification);
    }, nothing);
  }

  /** Not at all, or (where one is named) not for this client. */
  failing(client: ClientProfile | null): boolean {
    return this.#supervisor.failing || (client !== null && this.#runs.failsFor(client));
  }

  get inFlight(): number {
    let calls = 0;
    for (const connection of this.#connections.pool.connections()) calls += connection.inFlight;
    return calls;
  }

  /** What a further process of it would take. */
  get room(): Room {
    return this.#connections.pool.room;
  }

  knownCatalog(client: ClientProfile, orOthers: boolean): ServerCatalog | null {
    return this.#shown.known(client, orOthers);
  }

  catalog(client: ClientProfile, waitMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    return this.#boundary.later(
      () => this.#shown.get(client, waitMs, amongOthers),
      () => null,
    );
  }

  /** As `UpstreamSet.relist`. */
  relist(): Promise<void> {
    return this.#supervisor.up ? this.#boundary.later(() => this.#upkeep.heardElsewhere(), nothing) : Promise.resolve();
  }

  /** As `UpstreamSet.relistFor`. */
  relistFor(client: ClientProfile): Promise<void> {
    return this.#supervisor.up ? this.#boundary.later(() => this.#shown.anew(client), nothing) : Promise.resolve();
  }

  /** As `Upstreams.foundMeanwhile`. */
  listed(client: ClientProfile): Promise<boolean> {
    const connection = this.#connections.ready(client);
    if (connection === null) return Promise.resolve(false);
    return this.#boundary.later(
      () => this.#upkeep.settled(connection, this.#connections.listedAs(client)),
      () => false,
    );
  }

  listedFor(): Iterable<ClientProfile> {
    return this.#catalogs.kinds();
  }

  ownLists(): Iterable<readonly [string, ServerCatalog]> {
    return this.#catalogs.ownLists();
  }

  sessionKey(client: ClientProfile): string | null {
    return this.#connections.keyOf(client);
  }

  owns(client: ClientProfile): boolean {
    const connection = this.#connections.ready(client);
    return connection !== null && isExclusive(connection.tenancy);
  }

  releaseSession(sessionId: string): void {
    this.#boundary.run(() => {
      this.#lost.forget(sessionId);
      this.#events.released(sessionId);
      this.#connections.release(sessionId);
    }, nothing);
  }

  /** As `UpstreamSet.surrender`. */
  surrender(whose: ClientProfile | 'spare' | null): Promise<void> {
    return this.#boundary.later(async () => {
      const serving = this.#connections.serving(whose);
      const closed = whose === null ? this.close('remove') : null;
      this.#lost.surrender(serving);
      await Promise.all([closed, this.#connections.pool.surrender(serving, 'interrupt')]);
    }, nothing);
  }

  /** As `UpstreamSet.handOver`. */
  handOver(whose: ClientProfile | null): Promise<void> {
    return this.#boundary.later(async () => {
      const serving = this.#connections.serving(whose);
      this.#lost.surrender(serving);
      const closed = whose === null ? this.close('remove') : null;
      const keys = [...this.#connections.pool.keys()].filter(serving);
      const left = this.#connections.pool.surrender(serving, 'shutdown');
      // Clients that watch something over it watch it anew, over another one.
      for (const key of keys) this.#events.ended(key);
      await Promise.all([closed, left]);
    }, nothing);
  }

  sweep(): void {
    this.#boundary.run(() => this.#connections.pool.sweep(), nothing);
  }

  status(): ServerStatus {
    return this.#observer.status();
  }

  drained(deadlineMs: number): Promise<void> {
    return this.#connections.pool.drained(deadlineMs);
  }

  /**
   * Ends it for good. What is in flight gets UNKNOWN, so drain before where it matters. `why` is what sessions are told
   * that lose state. A second one waits for the first.
   */
  close(how: CloseReason, why: StateLoss = 'restarted'): Promise<void> {
    return this.#boundary.later(async () => {
      this.#runs.closing(how);
      this.#upkeep.close();
      if (how === 'remove') {
        for (const connection of this.#connections.pool.connections()) this.#events.stateLost(connection, why);
        this.#connections.replicas.forsake(why);
      }
      this.#ended = Promise.all([this.#ended, this.#supervisor.stop()]);
      await this.#ended;
    }, nothing);
  }
}

function nothing(): void {}

function failed(error: GatewayError): Promise<Outcome> {
  return Promise.resolve(failure(error));
}
