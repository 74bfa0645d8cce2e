import type { PhaseTimes } from '../../http/client/phase-times.ts';
import { type ProxyEnvironment, proxyFor } from '../../http/client/proxy-choice.ts';
import { sanitizedDefinition, sanitizedDescription } from '../../model/sanitized-definition.ts';
import { namesSecret } from '../../model/secret.ts';
import { authOf, type Server, takesTokens } from '../../model/server.ts';
import {
  type ConnectionStatus,
  type DefinitionView,
  DOWN,
  type Health,
  type LaunchFailure,
  loginAdvice,
  type ServerState,
  type ServerStatus,
  UP,
} from '../../model/server-state.ts';
import type { Connection } from '../connection/connection.ts';
import type { ServerHealth } from '../health/server-health.ts';
import type { ServerCatalogs } from '../lists/server-catalogs.ts';
import type { ClientConnections } from '../pool/client-connections.ts';
import { missingVariables } from '../process/environment.ts';
import type { ServerContext } from '../server-context.ts';
import type { Transition } from '../supervision/state-machine.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import { failedStep, likelyCause } from './likely-cause.ts';
import type { ServerHistory } from './server-history.ts';

/** How the last process of a start ended; it may become known after the start has failed. */
interface ProcessEnd {
  exit: LaunchFailure['exit'];
  stderrTail: string;
}

interface ObservedParts {
  /** Reports the status of the whole server; these parts may belong to one of its partitions. */
  readonly base: { status(): ServerStatus };
  readonly context: ServerContext;
  readonly supervisor: Supervisor;
  readonly catalogs: ServerCatalogs;
  readonly connections: ClientConnections;
  readonly health: ServerHealth;
  readonly history: ServerHistory;
  readonly phases: PhaseTimes | null;
}

/** Observes one server and keeps its last exit and its last failed start (S1.19). */
export class ServerObserver {
  readonly #parts: ObservedParts;
  #startedInMs: number | null = null;
  #lastExit: ServerStatus['lastExit'] = null;
  #stderrTail = '';
  /** End of the current or last start's process. */
  #processEnd: ProcessEnd = { exit: null, stderrTail: '' };
  #lastFailure: { readonly failure: Omit<LaunchFailure, keyof ProcessEnd>; readonly end: ProcessEnd } | null = null;
  /** The server requires a login, which was reported. */
  #asksLogin = false;

  constructor(parts: ObservedParts) {
    this.#parts = parts;
  }

  /** A start begins; its duration is known when the server is first listed. */
  starting(): void {
    this.#startedInMs = null;
    this.#processEnd = { exit: null, stderrTail: '' };
  }

  listed(): void {
    const { context, supervisor } = this.#parts;
    this.#startedInMs ??= context.deps.clock.now() - supervisor.startedAt;
    this.notifyChange();
  }

  ended({ closedReason, transport }: Connection): void {
    const { context } = this.#parts;
    this.#stderrTail = transport.stderrTail();
    if (context.newestTransport === transport) context.newestTransport = null;
    this.#processEnd.stderrTail = this.#stderrTail;
    if (closedReason?.kind !== 'exited') return;
    this.#lastExit = { code: closedReason.code, signal: closedReason.signal };
    this.#processEnd.exit = this.#lastExit;
  }

  /** null if the last start succeeded, or none has ended. */
  get lastLaunchFailure(): LaunchFailure | null {
    return this.#lastFailure === null ? null : { ...this.#lastFailure.failure, ...this.#lastFailure.end };
  }

  /** Reports a required login once until the server is up again. */
  #noteLogin(to: ServerState): void {
    const { deps, name, server } = this.#parts.context;
    const asks = to === 'auth_required';
    if (asks === this.#asksLogin || !(asks || UP.has(to))) return;
    this.#asksLogin = asks;
    const own = authOf(server).per === 'principal';
    const owner = own ? (server.caller?.owner ?? null) : null;
    // If each principal has its own credential, the server without one needs none.
    if (own && owner === null) return;
    deps.listener?.loginNeeded(name, owner, asks ? loginAdvice(name, server.transport, owner) : null);
  }

  /** Logs a failed start once and keeps it in the status until a start succeeds. */
  moved({ from, to, reason, failure, error, at }: Transition): void {
    this.#noteLogin(to);
    if (from !== 'starting') return;
    this.#lastFailure = null;
    if (!DOWN.has(to)) return;
    const { context, supervisor } = this.#parts;
    const { deps, logger, times, server } = context;
    const { transport } = server;
    const { environment = {}, inContainer = false } = deps.surroundings ?? {};
    const { command, args, env } = sanitizedDefinition(transport);
    const missing = transport.type === 'stdio' ? missingVariables(transport, environment) : [];
    const { exit } = this.#processEnd;
    const timedOut = deps.clock.now() - supervisor.startedAt >= times.startupMs;
    const proxy = 'url' in transport ? proxyHost(transport.url, environment) : null;
    const start = { server: server.name, transport, failure, error, missing, inContainer, exit, timedOut, proxy };
    const failed = {
      at,
      step: failedStep(start),
      error: logger.redact(reason ?? ''),
      likelyCause: likelyCause(start),
      command: command === null ? null : logger.redact(command),
      arguments: args.map((arg) => logger.redact(arg)),
      environment: Object.keys(env).sort(),
      missingVariables: missing,
      inContainer,
    };
    this.#lastFailure = { failure: failed, end: this.#processEnd };
    logger.warn('server_start_failed', { ...this.lastLaunchFailure, at: new Date(at).toISOString() });
  }

  notifyChange(): void {
    const { context } = this.#parts;
    context.deps.events.statusChanged(context.name, this.#parts.base.status());
  }

  /** A snapshot for the API. It says what to do if that is known, and shows no secret. */
  status(): ServerStatus {
    const { context, supervisor, catalogs, connections, history, phases } = this.#parts;
    const { server, times } = context;
    const { state } = supervisor;
    const { pool, replicas } = connections;
    const { url } = sanitizedDefinition(server.transport);
    const { latest: catalog } = catalogs;
    const tools = catalog?.lists.tools.items.map((item) => item.key) ?? [];
    const transport = pool.any()?.transport ?? (state === 'starting' ? context.newestTransport : null);
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
      stderrTail: transport?.stderrTail() ?? this.#stderrTail,
      lastLaunchFailure: this.lastLaunchFailure,
      connections: pooled,
      replicas: replicas.statuses(),
      pool: poolOf(pooled),
      processes: pool.processes,
      history: history.changes,
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
    const { name, transport, caller } = context.server;
    if (state === 'auth_required') return `${reason}; ${loginAdvice(name, transport, caller?.owner)}`;
    if (reason !== null) return reason;
    if (UP.has(state)) return health.reason;
    if (supervisor.queued) return 'waiting to start';
    return state === 'unknown' && context.server.start === 'lazy' ? 'starts on first use' : null;
  }

  /** The definition for the status (S3.16): with the names of variables and headers, without their values. */
  #definition(): DefinitionView {
    const { server, logger } = this.#parts.context;
    const { transport, description, misconfigured, enabled, start, timeoutMs } = server;
    const { command, args, env, headers } = sanitizedDefinition(transport);
    return {
      enabled,
      start,
      command: command === null || misconfigured !== undefined ? null : logger.redact(command),
      args: args.map((arg) => logger.redact(arg)),
      env,
      headers,
      auth: authKind(server, [...Object.keys(env), ...Object.keys(headers)]),
      timeoutMs,
      description: description === null ? null : logger.redact(sanitizedDescription(description, transport)),
    };
  }
}

/** A definition with an `Authorization` header takes no other credentials. */
function authKind(server: Server, names: readonly string[]): DefinitionView['auth'] {
  const { transport } = server;
  const auth = 'auth' in transport && takesTokens(server) ? transport.auth : undefined;
  if (auth !== undefined) return auth.exec === null ? 'oauth' : 'program';
  return names.some(namesSecret) ? 'static' : null;
}

function proxyHost(url: string, environment: ProxyEnvironment): string | null {
  try {
    return proxyFor(new URL(url), environment)?.host ?? null;
  } catch {
    return null;
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
