import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { Server } from '../../model/server.ts';
import {
  type ConnectionStatus,
  type DefinitionView,
  type Health,
  LOGIN_ADVICE,
  type ServerState,
  type ServerStatus,
  UP,
} from '../../model/server-state.ts';
import { sweptDefinition, sweptDescription } from '../../model/swept-definition.ts';
import type { Connection } from '../connection/connection.ts';
import type { ServerHealth } from '../health/server-health.ts';
import type { ServerCatalogs } from '../lists/server-catalogs.ts';
import type { ClientConnections } from '../pool/client-connections.ts';
import type { ServerContext } from '../server-context.ts';
import type { LaunchReports } from '../supervision/launch-reports.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import type { ServerStory } from './server-story.ts';

interface ObservedParts {
  readonly context: ServerContext;
  readonly supervisor: Supervisor;
  readonly catalogs: ServerCatalogs;
  readonly connections: ClientConnections;
  readonly health: ServerHealth;
  readonly launches: LaunchReports;
  readonly story: ServerStory;
  readonly phases: PhaseTimes | null;
}

/** What is observed of one server, with what is left of its last end. */
export class ServerObserver {
  readonly #parts: ObservedParts;
  #startedInMs: number | null = null;
  #lastExit: ServerStatus['lastExit'] = null;
  #stderrTail = '';

  constructor(parts: ObservedParts) {
    this.#parts = parts;
  }

  /** A start begins; it has taken place when the server is listed for the first time. */
  starting(): void {
    this.#startedInMs = null;
    this.#parts.launches.starting();
  }

  listed(): void {
    const { context, supervisor } = this.#parts;
    this.#startedInMs ??= context.deps.clock.now() - supervisor.startedAt;
    this.tell();
  }

  ended(connection: Connection): void {
    this.#parts.launches.ended(connection);
    this.#stderrTail = connection.transport.stderrTail();
    if (connection.ended?.kind === 'exited')
      this.#lastExit = { code: connection.ended.code, signal: connection.ended.signal };
  }

  tell(): void {
    const { context } = this.#parts;
    context.deps.events.statusChanged(context.name, this.status());
  }

  /** A snapshot for people. It says what to do where that is known, and shows no secret. */
  status(): ServerStatus {
    const { context, supervisor, catalogs, connections, launches, story, phases } = this.#parts;
    const { server, times } = context;
    const { state } = supervisor;
    const { pool, replicas } = connections;
    const { url } = sweptDefinition(server.transport);
    const { latest: catalog } = catalogs;
    const tools = catalog?.lists.tools.items.map((item) => item.key) ?? [];
    const live = pool.any();
    const pooled = pool.statuses();
    return {
      name: server.name,
      state,
      health: this.#health(state),
      reason: this.#reason(),
      authChallenge: supervisor.challenge,
      transport: server.transport.type,
      endpoint: url === null || server.misconfigured !== undefined ? null : context.logger.redact(url),
      containerId: containerOf(server),
      sshHost: 'ssh' in server.transport ? (server.transport.ssh?.host ?? null) : null,
      era: catalog?.handshake.era ?? null,
      revision: catalog?.handshake.revision ?? null,
      initialized: UP.has(state),
      toolCount: tools.length,
      tools: tools.sort(),
      promptCount: catalog?.lists.prompts.items.length ?? 0,
      resourceCount: catalog?.lists.resources.items.length ?? 0,
      startupTimeoutMs: times.startupMs,
      startedInMs: this.#startedInMs === null ? null : Math.round(this.#startedInMs),
      consecutiveFailures: supervisor.consecutiveFailures,
      restarts: supervisor.restarts,
      lastAttemptAt: supervisor.lastAttemptAt,
      nextRetryAt: supervisor.nextRetryAt,
      lastExit: this.#lastExit,
      stderrTail: live === null ? this.#stderrTail : live.transport.stderrTail(),
      lastLaunchFailure: launches.lastFailure,
      connections: pooled,
      replicas: replicas.statuses(),
      pool: poolOf(pooled),
      processes: pool.processes,
      history: story.changes,
      phases: phases?.figures() ?? null,
      definition: this.#definition(),
      catalogFromStore: catalogs.latestIsRemembered,
    };
  }

  #health(state: ServerState): Health {
    if (UP.has(state)) return this.#parts.health.reason === null ? 'healthy' : 'unhealthy';
    return UNWELL.has(state) ? 'unhealthy' : 'unknown';
  }

  #reason(): string | null {
    const { context, supervisor, health } = this.#parts;
    const { state, reason } = supervisor;
    if (state === 'auth_required') return `${reason}; ${LOGIN_ADVICE}`;
    if (reason !== null) return reason;
    if (UP.has(state)) return health.reason;
    if (supervisor.waits) return 'waiting to start';
    return state === 'unknown' && context.server.start === 'lazy' ? 'starts on first use' : null;
  }

  /** The definition for people (S3.16): names of variables and headers are shown, of their values none. */
  #definition(): DefinitionView {
    const { server, logger } = this.#parts.context;
    const { transport, description, misconfigured, enabled, start, timeoutMs } = server;
    const { command, args, env, headers } = sweptDefinition(transport);
    return {
      enabled,
      start,
      command: command === null || misconfigured !== undefined ? null : logger.redact(command),
      args: args.map((arg) => logger.redact(arg)),
      env,
      headers,
      timeoutMs,
      description: description === null ? null : logger.redact(sweptDescription(description, transport)),
    };
  }
}

const UNWELL: ReadonlySet<ServerState> = new Set(['degraded', 'failed', 'unreachable', 'defect']);

function poolOf(connections: readonly ConnectionStatus[]): ServerStatus['pool'] {
  const pool = { active: 0, idle: 0, closed: 0 };
  for (const { state } of connections) pool[state]++;
  return pool;
}

function containerOf({ transport }: Server): string | null {
  return transport.type === 'docker' && 'container' in transport.target ? transport.target.container : null;
}
