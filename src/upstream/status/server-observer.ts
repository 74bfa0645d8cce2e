import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { Clock } from '../../model/clock.ts';
import type { UpstreamEvents } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { Connection } from '../connection/connection.ts';
import type { ServerHealth } from '../health/server-health.ts';
import type { ServerCatalogs } from '../lists/server-catalogs.ts';
import type { Replicas } from '../pool/replicas.ts';
import type { SessionPool } from '../pool/session-pool.ts';
import type { LaunchReports } from '../supervision/launch-reports.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import { describeServer } from './server-status.ts';
import type { ServerStory } from './server-story.ts';

interface ServerObserverDeps {
  readonly clock: Clock;
  readonly events: UpstreamEvents;
  readonly supervisor: Supervisor;
  readonly catalogs: ServerCatalogs;
  readonly pool: SessionPool;
  readonly replicas: Replicas;
  readonly health: ServerHealth;
  readonly redact: (text: string) => string;
  readonly launches: LaunchReports;
  readonly times: { readonly startupMs: number };
  readonly story: ServerStory;
  readonly phases: PhaseTimes | null;
}

/** What is observed of one server, with what is left of its last end; tells it to whoever wants to know. */
export class ServerObserver {
  readonly #deps: ServerObserverDeps;
  #server: Server;
  #startedInMs: number | null = null;
  #lastExit: ServerStatus['lastExit'] = null;
  #stderrTail = '';

  constructor(server: Server, deps: ServerObserverDeps) {
    this.#server = server;
    this.#deps = deps;
  }

  get server(): Server {
    return this.#server;
  }

  update(server: Server): void {
    this.#server = server;
    this.tell();
  }

  /** A start begins; it has taken place when the server is listed for the first time. */
  starting(): void {
    this.#startedInMs = null;
    this.#deps.launches.starting();
  }

  listed(): void {
    this.#startedInMs ??= this.#deps.clock.now() - this.#deps.supervisor.startedAt;
    this.tell();
  }

  ended(connection: Connection): void {
    this.#deps.launches.ended(connection);
    this.#stderrTail = connection.transport.stderrTail();
    if (connection.ended?.kind === 'exited')
      this.#lastExit = { code: connection.ended.code, signal: connection.ended.signal };
  }

  status(): ServerStatus {
    const { supervisor, catalogs, health, pool, replicas, launches, times } = this.#deps;
    const live = pool.any();
    return describeServer({
      server: this.#server,
      supervisor,
      health,
      times,
      redact: this.#deps.redact,
      catalog: catalogs.latest,
      catalogFromStore: catalogs.latestIsRemembered,
      connections: pool.statuses(),
      replicas: replicas.statuses(),
      processes: pool.processes,
      startedInMs: this.#startedInMs,
      lastExit: this.#lastExit,
      stderrTail: live === null ? this.#stderrTail : live.transport.stderrTail(),
      lastLaunchFailure: launches.lastFailure,
      history: this.#deps.story.changes,
      phases: this.#deps.phases?.figures() ?? null,
    });
  }

  tell(): void {
    this.#deps.events.statusChanged(this.#server.name, this.status());
  }
}
