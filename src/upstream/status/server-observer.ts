import { HttpFailure } from '../../http/client/http-failure.ts';
import type { PhaseTimes } from '../../http/client/phase-times.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { bareHost, isLoopbackHost } from '../../model/host-address.ts';
import { authOf, type Server, type TransportSpec } from '../../model/server.ts';
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
import { sweptDefinition, sweptDescription } from '../../model/swept-definition.ts';
import type { Connection } from '../connection/connection.ts';
import type { FailureClass } from '../health/failure-class.ts';
import type { ServerHealth } from '../health/server-health.ts';
import type { ServerCatalogs } from '../lists/server-catalogs.ts';
import type { ClientConnections } from '../pool/client-connections.ts';
import { missingVariables } from '../process/environment.ts';
import type { ServerContext } from '../server-context.ts';
import type { Transition } from '../supervision/state-machine.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import { refusalOf } from '../transport/http-refusal.ts';
import type { ServerStory } from './server-story.ts';

/** What is known of a start that failed. */
export interface FailedStart {
  readonly server: string;
  readonly transport: TransportSpec;
  readonly failure: FailureClass | null;
  readonly error: GatewayError | null;
  readonly missing: readonly string[];
  readonly inContainer: boolean;
  readonly exit: LaunchFailure['exit'];
  readonly timedOut: boolean;
}

/** Exit codes of shells and of programs that start others. */
const NOT_EXECUTABLE = 126;
const NOT_FOUND = 127;

/** Why, most probably, and what to do about it; null where nothing is known beyond the error itself. */
export function likelyCause(start: FailedStart): string | null {
  const { transport, failure, error, missing, inContainer, exit, timedOut } = start;
  if (missing.length > 0) {
    return `${missing.join(', ')} is to be handed on to it, and is not set in the gateway's own environment`;
  }
  if (failure === 'auth') return `it asks for credentials; ${loginAdvice(start.server, transport)}`;
  if ('url' in transport) return ofRemote(error, inContainer && isHere(transport.url));
  if (failure === 'configuration') return 'its definition names something that is not there; see the error';
  if (exit?.code === NOT_FOUND) return 'a program that its command starts is not installed where it runs';
  if (exit?.code === NOT_EXECUTABLE) return 'a program that its command starts may not be executed';
  if (exit?.code === 0) return 'it ended by itself, as a program does that is no server or lacks an argument';
  if (exit !== null) return 'it ended by itself; its last words are in the tail of its standard error';
  if (timedOut) return 'it is waiting for something, is still fetching a package, or speaks no MCP on its output';
  return null;
}

const INSIDE =
  'the gateway runs in a container, where localhost is the container itself; name the host, as in host.docker.internal';

/** `inside`: its address means the gateway's own container. That matters only where nothing answered there. */
function ofRemote(error: GatewayError | null, inside: boolean): string | null {
  let unreached = false;
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    const status = at instanceof GatewayError ? (refusalOf(at)?.status ?? 0) : 0;
    if (status >= 500) return 'the server answered, and failed by itself; its own log says why';
    if (status >= 400) return 'something answered at its address and takes no MCP there; check the path of its url';
    if (at instanceof HttpFailure) unreached = !at.sent && at.kind !== 'tls' && at.kind !== 'proxy';
  }
  if (!unreached && error?.code === 'UPSTREAM_PROTOCOL') {
    return 'what answered at its address is no MCP server, but perhaps a web page or a login; check its url';
  }
  return inside && unreached ? INSIDE : null;
}

function isHere(url: string): boolean {
  return URL.canParse(url) && isLoopbackHost(bareHost(new URL(url).hostname));
}

/** What was left of the connections of one start; it may come after the start has failed. */
interface Remains {
  exit: LaunchFailure['exit'];
  stderrTail: string;
}

interface ObservedParts {
  /** What is reported: the server, of which these may be the parts of one side. */
  readonly whole: { status(): ServerStatus };
  readonly context: ServerContext;
  readonly supervisor: Supervisor;
  readonly catalogs: ServerCatalogs;
  readonly connections: ClientConnections;
  readonly health: ServerHealth;
  readonly story: ServerStory;
  readonly phases: PhaseTimes | null;
}

/** What is observed of one server, with what is left of its last end and of its last start that failed (S1.19). */
export class ServerObserver {
  readonly #parts: ObservedParts;
  #startedInMs: number | null = null;
  #lastExit: ServerStatus['lastExit'] = null;
  #stderrTail = '';
  /** Of the start under way, or of the last one. */
  #remains: Remains = { exit: null, stderrTail: '' };
  #lastFailure: { readonly failure: Omit<LaunchFailure, keyof Remains>; readonly remains: Remains } | null = null;
  /** It asks for a login, which was reported. */
  #asksLogin = false;

  constructor(parts: ObservedParts) {
    this.#parts = parts;
  }

  /** A start begins; it has taken place when the server is listed for the first time. */
  starting(): void {
    this.#startedInMs = null;
    this.#remains = { exit: null, stderrTail: '' };
  }

  listed(): void {
    const { context, supervisor } = this.#parts;
    this.#startedInMs ??= context.deps.clock.now() - supervisor.startedAt;
    this.tell();
  }

  ended({ ended, transport }: Connection): void {
    this.#stderrTail = transport.stderrTail();
    this.#remains.stderrTail = this.#stderrTail;
    if (ended?.kind !== 'exited') return;
    this.#lastExit = { code: ended.code, signal: ended.signal };
    this.#remains.exit = this.#lastExit;
  }

  /** null when the last start succeeded, or none has ended. */
  get lastLaunchFailure(): LaunchFailure | null {
    return this.#lastFailure === null ? null : { ...this.#lastFailure.failure, ...this.#lastFailure.remains };
  }

  /** Reported once until it is up again, however often it asks. */
  #noteLogin(to: ServerState): void {
    const { deps, name, server } = this.#parts.context;
    const asks = to === 'auth_required';
    if (asks === this.#asksLogin || !(asks || UP.has(to))) return;
    this.#asksLogin = asks;
    const own = authOf(server).per === 'principal';
    const owner = own ? (server.caller?.owner ?? null) : null;
    // Where each principal has its own, the server without one needs none.
    if (own && owner === null) return;
    deps.news?.loginNeeded(name, owner, asks ? loginAdvice(name, server.transport, owner) : null);
  }

  /** A start that failed is in the log once, and in the status until one succeeds. */
  moved({ from, to, reason, failure, error, at }: Transition): void {
    this.#noteLogin(to);
    if (from !== 'starting') return;
    this.#lastFailure = null;
    if (!DOWN.has(to)) return;
    const { context, supervisor } = this.#parts;
    const { deps, logger, times, server } = context;
    const { transport } = server;
    const { environment = {}, inContainer = false } = deps.surroundings ?? {};
    const { command, args, env } = sweptDefinition(transport);
    const missing = transport.type === 'stdio' ? missingVariables(transport, environment) : [];
    const { exit } = this.#remains;
    const timedOut = deps.clock.now() - supervisor.startedAt >= times.startupMs;
    const failed = {
      at,
      error: logger.redact(reason ?? ''),
      likelyCause: likelyCause({
        server: context.server.name,
        transport,
        failure,
        error,
        missing,
        inContainer,
        exit,
        timedOut,
      }),
      command: command === null ? null : logger.redact(command),
      arguments: args.map((arg) => logger.redact(arg)),
      environment: Object.keys(env).sort(),
      missingVariables: missing,
      inContainer,
    };
    this.#lastFailure = { failure: failed, remains: this.#remains };
    logger.warn('server_start_failed', { ...this.lastLaunchFailure });
  }

  tell(): void {
    const { context } = this.#parts;
    context.deps.events.statusChanged(context.name, this.#parts.whole.status());
  }

  /** A snapshot for people. It says what to do where that is known, and shows no secret. */
  status(): ServerStatus {
    const { context, supervisor, catalogs, connections, story, phases } = this.#parts;
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
      lastLaunchFailure: this.lastLaunchFailure,
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
    const { name, transport, caller } = context.server;
    if (state === 'auth_required') return `${reason}; ${loginAdvice(name, transport, caller?.owner)}`;
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
