import type { Server } from '../../model/server.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import {
  type ConnectionStatus,
  type DefinitionView,
  type Health,
  LOGIN_ADVICE,
  type ReplicaStatus,
  type ServerState,
  type ServerStatus,
  UP,
} from '../../model/server-state.ts';
import { sweptDefinition, sweptDescription } from '../../model/swept-definition.ts';
import type { ServerHealth } from '../health/server-health.ts';
import type { Supervisor } from '../supervision/supervisor.ts';

/** A server's definition for people (S3.16): names of variables and headers are shown, of their values none. */
function definitionView(server: Server, redact: (text: string) => string): DefinitionView {
  const { transport, description, misconfigured } = server;
  const { command, args, env, headers } = sweptDefinition(transport);
  return {
    enabled: server.enabled,
    start: server.start,
    command: command === null || misconfigured !== undefined ? null : redact(command),
    args: args.map(redact),
    env,
    headers,
    timeoutMs: server.timeoutMs,
    description: description === null ? null : redact(sweptDescription(description, transport)),
  };
}

interface ObservedServer {
  readonly server: Server;
  readonly supervisor: Supervisor;
  readonly health: ServerHealth;
  readonly times: { readonly startupMs: number };
  readonly redact: (text: string) => string;
  readonly catalog: ServerCatalog | null;
  readonly catalogFromStore: boolean;
  readonly connections: readonly ConnectionStatus[];
  readonly replicas: readonly ReplicaStatus[];
  readonly processes: ServerStatus['processes'];
  readonly startedInMs: number | null;
  readonly lastExit: ServerStatus['lastExit'];
  readonly stderrTail: string;
  readonly lastLaunchFailure: ServerStatus['lastLaunchFailure'];
  readonly history: ServerStatus['history'];
  readonly phases: ServerStatus['phases'];
}

/** A snapshot of what is observed, for people. Says what to do where we know it, and shows no secret. */
export function describeServer(observed: ObservedServer): ServerStatus {
  const { server, supervisor, catalog } = observed;
  const { state } = supervisor;
  const { url } = sweptDefinition(server.transport);
  const tools = catalog?.lists.tools.items.map((item) => item.key) ?? [];
  return {
    name: server.name,
    state,
    health: healthOf(state, observed.health),
    reason: reasonOf(observed),
    authChallenge: supervisor.challenge,
    transport: server.transport.type,
    endpoint: url === null || server.misconfigured !== undefined ? null : observed.redact(url),
    containerId: containerOf(server),
    sshHost: 'ssh' in server.transport ? (server.transport.ssh?.host ?? null) : null,
    era: catalog?.hello.era ?? null,
    revision: catalog?.hello.revision ?? null,
    initialized: UP.has(state),
    toolCount: tools.length,
    tools: tools.sort(),
    promptCount: catalog?.lists.prompts.items.length ?? 0,
    resourceCount: catalog?.lists.resources.items.length ?? 0,
    startupTimeoutMs: observed.times.startupMs,
    startedInMs: observed.startedInMs === null ? null : Math.round(observed.startedInMs),
    consecutiveFailures: supervisor.consecutiveFailures,
    restarts: supervisor.restarts,
    lastAttemptAt: supervisor.lastAttemptAt,
    nextRetryAt: supervisor.nextRetryAt,
    lastExit: observed.lastExit,
    stderrTail: observed.stderrTail,
    lastLaunchFailure: observed.lastLaunchFailure,
    connections: observed.connections,
    replicas: observed.replicas,
    pool: poolOf(observed.connections),
    processes: observed.processes,
    history: observed.history,
    phases: observed.phases,
    definition: definitionView(server, observed.redact),
    catalogFromStore: observed.catalogFromStore,
  };
}

function poolOf(connections: readonly ConnectionStatus[]): ServerStatus['pool'] {
  const pool = { active: 0, idle: 0, closed: 0 };
  for (const { state } of connections) pool[state]++;
  return pool;
}

function containerOf({ transport }: Server): string | null {
  return transport.type === 'docker' && 'container' in transport.target ? transport.target.container : null;
}

const UNWELL: ReadonlySet<ServerState> = new Set(['degraded', 'failed', 'unreachable', 'defect']);

function healthOf(state: ServerState, judged: ServerHealth): Health {
  if (UP.has(state)) return judged.healthy ? 'healthy' : 'unhealthy';
  return UNWELL.has(state) ? 'unhealthy' : 'unknown';
}

function reasonOf({ supervisor, health, server }: ObservedServer): string | null {
  const { state, reason } = supervisor;
  if (state === 'auth_required') return `${reason}; ${LOGIN_ADVICE}`;
  if (reason !== null) return reason;
  if (UP.has(state)) return health.reason;
  if (supervisor.waits) return 'waiting to start';
  return state === 'unknown' && server.start === 'lazy' ? 'starts on first use' : null;
}
