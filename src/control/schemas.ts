import { DRIFT_SUMMARY } from './drift-schemas.ts';
import type { Schema } from './operation.ts';
import { count, list, nullable, object, text } from './schema-parts.ts';

const STATES = [
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
];

const CONNECTION = object({
  id: { type: 'string', description: '`server/key`, a slash within a part encoded.' },
  key: text,
  state: { enum: ['active', 'idle', 'closed'] },
  pid: nullable({ type: 'integer' }),
  inFlight: count,
  createdAt: { type: 'number', description: 'Milliseconds since 1970.' },
  lastUsedAt: { type: 'number', description: 'Milliseconds since 1970.' },
  requests: count,
  errors: count,
  consecutiveErrors: count,
  lastError: nullable(text),
});

const REPLICA = object({
  replica: { type: 'integer', minimum: 1 },
  era: { enum: ['stateful', 'stateless'] },
  state: { enum: STATES },
  health: { enum: ['unknown', 'healthy', 'unhealthy'] },
  reason: nullable(text),
  pid: nullable({ type: 'integer' }),
  inFlight: count,
  bound: { ...count, description: 'Sessions and handles that keep to it.' },
  restarts: count,
  consecutiveFailures: count,
  nextRetryAt: nullable({ type: 'number', description: 'Milliseconds since 1970.' }),
});

const NAMES: Schema = {
  type: 'object',
  description: 'Names; the values are redacted.',
  additionalProperties: text,
};

const PROCESSES = object({ running: count, limit: count }, 'Processes on this node, and how many there may be.');

const EXIT = nullable(object({ code: nullable({ type: 'integer' }), signal: nullable(text) }));

const LAUNCH_FAILURE = object({
  at: { type: 'number', description: 'Milliseconds since 1970.' },
  error: text,
  likelyCause: nullable(text),
  command: nullable(text),
  arguments: list(text),
  environment: { ...list(text), description: 'Names of the declared variables.' },
  missingVariables: list(text),
  inContainer: { type: 'boolean', description: 'Whether the gateway itself runs in a container.' },
  exit: EXIT,
  stderrTail: text,
});

const CHALLENGE = object(
  { resourceMetadata: nullable(text), scope: nullable(text), issuer: nullable(text) },
  'What a server that asks for credentials says of how to get them.',
);

const CHANGE = {
  challenge: nullable(CHALLENGE),
  from: { enum: STATES },
  to: { enum: STATES },
  reason: nullable(text),
  failure: nullable({ enum: ['configuration', 'tls', 'auth', 'transient', 'abort', 'defect'] }),
};

const milliseconds: Schema = { type: 'number', minimum: 0 };

const PHASE = nullable(object({ lastMs: milliseconds, p50Ms: milliseconds, p95Ms: milliseconds, count }));

const PHASES = object(
  {
    dns: PHASE,
    tcp: PHASE,
    tls: PHASE,
    firstByte: PHASE,
    slowest: { enum: ['dns', 'tcp', 'tls', 'firstByte'] },
    summary: { type: 'string', description: 'What is slow, in a sentence.' },
  },
  'Where the time of requests to a remote server goes, over the last 128 times of each phase.',
);

export const SERVER = object(
  {
    name: text,
    state: { enum: STATES },
    health: { enum: ['unknown', 'healthy', 'unhealthy'] },
    reason: nullable(text),
    authChallenge: nullable(CHALLENGE),
    transport: { enum: ['stdio', 'docker', 'http', 'sse', 'json', 'memory'] },
    endpoint: nullable(text),
    era: nullable({ enum: ['stateful', 'stateless'] }),
    revision: nullable(text),
    initialized: { type: 'boolean' },
    toolCount: count,
    tools: list(text),
    promptCount: count,
    resourceCount: count,
    startupTimeoutMs: { type: 'number', description: 'How long a start may take.' },
    startedInMs: nullable({ type: 'number' }),
    consecutiveFailures: count,
    restarts: count,
    lastAttemptAt: nullable({ type: 'number', description: 'Milliseconds since 1970.' }),
    nextRetryAt: nullable({ type: 'number', description: 'Milliseconds since 1970.' }),
    lastExit: EXIT,
    stderrTail: text,
    lastLaunchFailure: nullable(LAUNCH_FAILURE),
    connections: list(CONNECTION),
    replicas: list(REPLICA),
    pool: object({ active: count, idle: count, closed: count }, 'Connections by state.'),
    processes: nullable(PROCESSES),
    history: {
      ...list(object({ ...CHANGE, at: { type: 'number', description: 'Milliseconds since 1970.' } })),
      description: 'The last 50 steps from state to state, oldest first; each begins where the one before ended.',
    },
    phases: nullable(PHASES),
    catalogFromStore: { type: 'boolean' },
    drift: DRIFT_SUMMARY,
    desired: nullable(
      object({
        source: { enum: ['file', 'store', 'temporary', 'program'] },
        suspended: { type: 'boolean' },
        origin: nullable(text),
        revision: nullable(count),
        expiresAt: nullable({ type: 'string', format: 'date-time' }),
        session: nullable(text),
      }),
    ),
    external: { type: 'boolean', description: 'Reached by URL: nothing of ours to start.' },
    localProcess: { type: 'boolean' },
    ssh: { type: 'boolean' },
    sshHost: nullable(text),
    containerId: nullable(text),
    serviceType: { enum: ['mcpserver'] },
    type: text,
    autoStart: { type: 'boolean' },
    command: nullable(text),
    args: list(text),
    url: nullable(text),
    env: NAMES,
    headers: NAMES,
    timeout: { type: 'number', description: 'Seconds.' },
    description: nullable(text),
    error: nullable(text),
    clientReady: { type: 'boolean' },
    client: nullable(object({ transport: text, revision: nullable(text) }, 'How the gateway speaks with it.')),
    toolPrefix: { type: 'string', description: 'Its tools are exposed under this prefix.' },
    family: { type: 'null', description: 'This gateway has no families of equivalent servers.' },
    auth: nullable(
      object({ type: { const: 'static' } }, 'A header or variable of its definition is named like a credential.'),
    ),
    lastAttempt: nullable({ type: 'string', format: 'date-time' }),
    nextRetryAfter: nullable({ type: 'string', format: 'date-time' }),
  },
  'A server as observed on this node.',
);

export const LIST_OF_SERVERS = object({
  servers: list(SERVER),
  cursor: { type: 'string', description: 'Where the event stream stands: what comes after it is not in this list.' },
});

const time: Schema = { type: 'string', format: 'date-time' };
const GAP = object({ type: { const: 'gap' }, reason: text }, 'Something is missing here.');

export const EVENT: Schema = {
  oneOf: [
    object({ time, type: { const: 'state' }, server: text, ...CHANGE }),
    object({
      time,
      type: { const: 'health' },
      server: text,
      health: { enum: ['healthy', 'unhealthy'] },
      reason: nullable(text),
    }),
    object({
      time,
      type: { const: 'recovery' },
      server: text,
      step: { enum: ['started', 'succeeded', 'failed'] },
      reason: nullable(text),
    }),
    object(
      {
        time,
        type: { const: 'list_item_invalid' },
        server: text,
        list: { type: 'string', description: 'The method that lists it.' },
        page: { type: 'integer', description: 'From 0, as `index`.' },
        index: { type: 'integer' },
        item: nullable(text),
        reason: text,
      },
      'An item of a list of the server is left out, because clients could not use a list with it.',
    ),
    object({ time, type: { enum: ['added', 'replaced', 'removed'] }, server: text }),
    GAP,
  ],
};

const LINE = object(
  { time, level: { enum: ['info', 'warn', 'error'] }, event: text, server: text },
  'As in the log of the gateway; further fields belong to the event. `line` of `server_stderr` is what the server wrote.',
);

export const LOG_ENTRY: Schema = { oneOf: [LINE, GAP] };

export const LOGS = object({ entries: list(LINE), cursor: text });

export const LIST_OF_SESSIONS = object({
  sessions: list(
    object({
      label: text,
      principal: text,
      endpoint: text,
      revision: text,
      clientInfo: {},
      createdAt: { type: 'string', format: 'date-time' },
      lastSeenAt: { type: 'string', format: 'date-time' },
    }),
  ),
});

export const LIST_OF_TOOLS = object({
  tools: list(object({ exposedName: text, server: text, name: text, definition: { type: 'object' } })),
});

export const GATEWAY = object({
  version: text,
  pid: { type: 'integer' },
  startedAt: { type: 'string', format: 'date-time' },
  mcpUrl: text,
  controlUrl: text,
  files: list(text),
  configVersion: count,
  processes: PROCESSES,
  configProblem: nullable(text),
  desiredProblems: {
    ...list(text),
    description: 'What should run and does not, or could not be read: of the files, of the store.',
  },
  ready: { type: 'boolean' },
  reason: text,
});

export const OUTCOME: Schema = {
  type: 'object',
  properties: {
    outcome: { enum: ['RESULT', 'NOT_SENT', 'UNKNOWN', 'REFUSED'] },
    result: { type: 'object', description: "The server's result, as it wrote it; present with RESULT." },
    error: { type: 'object', description: 'A JSON-RPC error: of the server with RESULT, of the gateway otherwise.' },
  },
  required: ['outcome'],
};

const PROBLEM = object(
  { code: text, line: count, column: count, message: text, frame: text, fix: text },
  'Something wrong in a definition, as `trunkline check` tells it; the file is the body.',
);

export const ERROR: Schema = {
  type: 'object',
  properties: {
    error: {
      type: 'object',
      properties: { code: text, message: text, problems: list(PROBLEM) },
      required: ['code', 'message'],
    },
  },
  required: ['error'],
};
