import { OPERATOR } from './client-profile.ts';
import {
  count,
  described,
  flag,
  type Infer,
  integer,
  list,
  milliseconds,
  named,
  nullable,
  object,
  oneOf,
  optional,
  record,
  text,
  wallTime,
} from './schema.ts';
import { authOf, TRANSPORT_KINDS, type TransportSpec, takesTokens } from './server.ts';

/** States of a server (S3.20, S4.5). `defect`: an exception in the gateway's code for this server, until a restart. */
export const STATE = named(
  'ServerState',
  oneOf([
    'unknown',
    'starting',
    'running',
    'connected',
    'stopping',
    'stopped',
    'disconnected',
    'degraded',
    'failed',
    'unreachable',
    'auth_required',
    'misconfigured',
    'defect',
    'suspended',
  ]),
);
export type ServerState = Infer<typeof STATE>;

const HEALTH = named('Health', oneOf(['unknown', 'healthy', 'unhealthy']));
export type Health = Infer<typeof HEALTH>;

export const TRANSPORT = named('Transport', oneOf(TRANSPORT_KINDS));

/** Servers in these states take calls. */
export const UP: ReadonlySet<ServerState> = new Set(['running', 'connected']);

/** Something is wrong with the server, unlike in states that an operator asked for, such as `stopped`. */
export const DOWN: ReadonlySet<ServerState> = new Set([
  'failed',
  'unreachable',
  'auth_required',
  'misconfigured',
  'defect',
]);

/** Up, or being reconnected: a request to such a server starts nothing. */
export const STARTED: ReadonlySet<ServerState> = new Set(['running', 'connected', 'degraded']);

/** Advice for a server whose credentials come from a program. */
export const PROGRAM_ADVICE = 'its credential program has none that it takes, see: trunkline connections';

/**
 * How to get credentials for a server that asks for them; without `transport`, as if it took a login. `owner`: the principal
 * that needs its own; null if all callers share them.
 */
export function loginAdvice(server: string, transport?: TransportSpec, owner: string | null = null): string {
  if (transport !== undefined && 'url' in transport) {
    const { exec, grant } = authOf({ transport });
    if (exec !== null) return PROGRAM_ADVICE;
    if (!takesTokens({ transport }))
      return `correct the Authorization header in its definition, or remove it and sign in: trunkline login ${server}`;
    if (grant !== 'authorization_code')
      return `its grant ${grant} gave no token that it takes, see: trunkline connections`;
  }
  const whose = owner === null || owner === OPERATOR.id ? '' : ` --principal ${owner}`;
  return `sign in: trunkline login ${server}${whose}`;
}

/** How to get credentials, as the server's challenge says (RFC 9110 §11.6.1, RFC 9728 §5.1). */
const AUTH_CHALLENGE = named(
  'AuthChallenge',
  object({
    resourceMetadata: nullable(text),
    scope: nullable(text),
    issuer: described(nullable(text), '`authorization_uri` or `issuer` of the challenge.'),
  }),
);
export type AuthChallenge = Infer<typeof AUTH_CHALLENGE>;

/** A step from one state to another, without its time. */
export const STATE_STEP = {
  from: STATE,
  to: STATE,
  reason: described(nullable(text), 'In words; null for the usual course.'),
  failure: described(
    nullable(named('FailureClass', oneOf(['configuration', 'tls', 'auth', 'transient', 'abort', 'defect']))),
    'The class of the failure that caused the step.',
  ),
  challenge: described(nullable(AUTH_CHALLENGE), 'Set on the way to `auth_required`.'),
};

const STATE_CHANGE = named('StateChange', object({ ...STATE_STEP, at: wallTime }));
export type StateChange = Infer<typeof STATE_CHANGE>;

export const RECOVERY_STEP = oneOf(['started', 'succeeded', 'failed']);
export type RecoveryStep = Infer<typeof RECOVERY_STEP>;

export const PHASES = ['dns', 'tcp', 'tls', 'firstByte'] as const;
export type Phase = (typeof PHASES)[number];

const PHASE_FIGURES = named(
  'PhaseFigures',
  object({ lastMs: milliseconds, p50Ms: milliseconds, p95Ms: milliseconds, count }),
);
export type PhaseFigures = Infer<typeof PHASE_FIGURES>;

const REQUEST_PHASES = named(
  'RequestPhases',
  object({
    dns: nullable(PHASE_FIGURES),
    tcp: nullable(PHASE_FIGURES),
    tls: nullable(PHASE_FIGURES),
    firstByte: nullable(PHASE_FIGURES),
    slowest: oneOf(PHASES),
    summary: described(text, 'What is slow, in a sentence.'),
  }),
);
/** Where requests to a remote server spend their time; null for phases that did not happen. */
export type RequestPhases = Infer<typeof REQUEST_PHASES>;

const EXIT = named('ProcessExit', object({ code: nullable(integer), signal: nullable(text) }));

/** In the order of a start; a process has no `name` step, and a URL no `command` step. */
export const START_STEPS = [
  'definition',
  'command',
  'name',
  'connection',
  'certificate',
  'start',
  'http',
  'login',
  'initialize',
] as const;
const START_STEP = named('StartStep', oneOf(START_STEPS));
export type StartStep = Infer<typeof START_STEP>;

const LAUNCH_FAILURE = named(
  'LaunchFailure',
  object({
    at: wallTime,
    step: described(START_STEP, 'The step of the start that failed; those before it went well.'),
    error: text,
    likelyCause: described(nullable(text), 'The most probable reason, with the remedy.'),
    command: described(nullable(text), 'null where the gateway starts nothing.'),
    arguments: described(list(text), 'Secrets are masked.'),
    environment: described(list(text), 'Names of the declared variables, sorted.'),
    missingVariables: described(
      list(text),
      'Names of variables that the server should get and that are not set, sorted.',
    ),
    inContainer: described(flag, 'Whether the gateway itself runs in a container.'),
    exit: nullable(EXIT),
    stderrTail: described(
      text,
      'The end of what the process wrote to standard error in that start; secrets are masked.',
    ),
  }),
);
export type LaunchFailure = Infer<typeof LAUNCH_FAILURE>;

const REPLICA = named(
  'Replica',
  object({
    replica: described(integer, 'From 1.'),
    era: oneOf(['stateful', 'stateless']),
    state: STATE,
    health: HEALTH,
    reason: described(nullable(text), 'Why it does not serve, or not well.'),
    pid: nullable(integer),
    inFlight: count,
    bound: described(count, 'Sessions and handles that keep to it.'),
    restarts: count,
    consecutiveFailures: count,
    nextRetryAt: nullable(wallTime),
  }),
);
export type ReplicaStatus = Infer<typeof REPLICA>;

const USAGE = named(
  'ProcessUsage',
  object({
    processes: described(count, 'The process and its children in the same process group.'),
    memoryBytes: described(count, 'Resident memory; shared pages count for each process.'),
    cpuMs: described(milliseconds, 'Processor time since they started.'),
  }),
  'What a process uses of the machine of its node.',
);
export type ProcessUsage = Infer<typeof USAGE>;

const CONNECTION = named(
  'Connection',
  object({
    id: described(text, '`server/key`, a slash within a part encoded (S1.2).'),
    key: described(text, '`shared`, `spare`, `principal …` or `session …`; never the session id on the wire.'),
    state: described(
      oneOf(['active', 'idle', 'closed']),
      '`active`: requests in flight; `idle`: none; `closed`: about to end.',
    ),
    pid: nullable(integer),
    usage: described(optional(USAGE), 'Of its process, in `getServer`, where the node runs on Linux.'),
    inFlight: count,
    createdAt: wallTime,
    lastUsedAt: wallTime,
    requests: count,
    errors: described(count, 'Requests that were lost or timed out. An error of the server is an answer.'),
    consecutiveErrors: described(count, 'Those since the last answered request.'),
    lastError: nullable(text),
  }),
);
export type ConnectionStatus = Infer<typeof CONNECTION>;

export const PROCESSES = named(
  'Processes',
  object({ running: count, limit: count }),
  'Processes on this node, and the limit.',
);

const NAMES = described(record(text), 'Names; the values are redacted.');

/** A definition for display: of variables and headers only the names. */
export const DEFINITION = {
  enabled: flag,
  start: oneOf(['eager', 'lazy']),
  command: described(nullable(text), 'null where the gateway starts no process.'),
  args: list(text),
  env: NAMES,
  headers: NAMES,
  auth: described(
    nullable(oneOf(['static', 'oauth', 'program'])),
    'Its credentials: a header or variable named like one, OAuth as `auth` of the definition says, or a program. null for none.',
  ),
  timeoutMs: milliseconds,
  description: nullable(text),
};
const DEFINITION_VIEW = object(DEFINITION);
export type DefinitionView = Infer<typeof DEFINITION_VIEW>;

/** What this node observes of a server. No secrets. */
export const OBSERVED = {
  name: text,
  state: STATE,
  health: HEALTH,
  reason: described(nullable(text), 'Why it is not healthy, with the remedy where it is known.'),
  authChallenge: described(nullable(AUTH_CHALLENGE), 'Set while the state is `auth_required`.'),
  transport: TRANSPORT,
  endpoint: described(nullable(text), 'The URL of a remote server.'),
  containerId: described(nullable(text), 'Name or id of the container that it is attached to.'),
  sshHost: described(nullable(text), 'The host that it runs on, where ssh reaches it.'),
  era: nullable(oneOf(['stateful', 'stateless'])),
  revision: nullable(text),
  initialized: flag,
  toolCount: described(
    count,
    'In the list that the server gave last, to whichever client; with what filters or approvals withhold. It may give clients of other capabilities another.',
  ),
  tools: described(list(text), 'Names of the server, sorted.'),
  promptCount: count,
  resourceCount: count,
  startupTimeoutMs: described(milliseconds, 'How long a start may take.'),
  startedInMs: described(nullable(milliseconds), 'From the start to the first catalogue; null until then.'),
  consecutiveFailures: count,
  restarts: count,
  lastAttemptAt: nullable(wallTime),
  nextRetryAt: nullable(wallTime),
  lastExit: nullable(EXIT),
  stderrTail: described(text, 'The end of the standard error of its process; secrets are masked.'),
  lastLaunchFailure: described(nullable(LAUNCH_FAILURE), 'null when the last start succeeded, or there was none.'),
  connections: list(CONNECTION),
  replicas: described(list(REPLICA), 'Where several processes share its calls; else empty.'),
  pool: described(object({ active: count, idle: count, closed: count }), 'Connections by state.'),
  processes: described(nullable(PROCESSES), 'null where no process of it starts here.'),
  history: described(list(STATE_CHANGE), 'The last 50 steps from state to state, oldest first.'),
  phases: described(nullable(REQUEST_PHASES), 'null for servers without a URL, and before the first request.'),
  catalogFromStore: described(
    flag,
    'The catalogue is a remembered one: the server has not been listed since the start.',
  ),
};
const STATUS = object({ ...OBSERVED, definition: DEFINITION_VIEW });
/** What this node observes of a server, for people: status API, start screen, `trunkline status`. No secrets. */
export type ServerStatus = Infer<typeof STATUS>;

export function isReady(status: ServerStatus): boolean {
  return UP.has(status.state);
}

/**
 * Whether its start or stop has ended: it is up with its lists, has failed, or is at rest. `unknown` is none of these: a call
 * or a listing may be starting a lazy server.
 */
export function isSettled(status: ServerStatus): boolean {
  if (isReady(status)) return status.startedInMs !== null;
  if (status.state === 'unknown') return status.nextRetryAt !== null;
  return status.state !== 'starting' && status.state !== 'stopping';
}
