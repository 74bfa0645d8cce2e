import { CALL_SECOND, CLIENT_RATE, SECOND, SERVER_RATE } from '../model/call-rates.ts';
import { CALL } from '../model/call-record.ts';
import { CONDITION } from '../model/conditions.ts';
import { DRIFT_REPORT, DRIFT_SUMMARY } from '../model/drift.ts';
import { RECORDING } from '../model/recordings.ts';
import {
  anyObject,
  anyValue,
  constant,
  count,
  described,
  flag,
  type Infer,
  integer,
  isoTime,
  list,
  named,
  nullable,
  object,
  oneOf,
  optional,
  text,
  union,
} from '../model/schema.ts';
import { INVALID_ITEM } from '../model/server-catalog.ts';
import { DEFINITION, OBSERVED, PROCESSES, RECOVERY_STEP, STATE_STEP, TRANSPORT } from '../model/server-state.ts';
import { WATCHED_LIST } from '../model/watched-list.ts';

/** For lists of all nodes. */
export const SILENT = optional(
  described(list(text), 'The nodes that did not answer, or were lost within the hour: nothing of theirs is here.'),
);

/** Keys that programs written for other gateways read (S2.24, S3.15, S3.16), besides ours. */
const COMPAT = named(
  'CompatKeys',
  object({
    type: TRANSPORT,
    serviceType: constant('mcpserver'),
    external: described(flag, 'Reached by URL.'),
    localProcess: described(flag, 'A process of this machine.'),
    ssh: described(flag, 'Reached through a remote shell.'),
    autoStart: flag,
    url: nullable(text),
    timeout: described({ type: 'number' } as typeof integer, 'Seconds.'),
    error: nullable(text),
    clientReady: flag,
    client: nullable(object({ transport: TRANSPORT, revision: nullable(text) })),
    toolPrefix: described(text, 'Its tools are exposed under this prefix.'),
    family: described(constant(null), 'This gateway has no families of equivalent servers.'),
    auth: described(nullable(object({ type: oneOf(['static', 'oauth', 'program']) })), 'As `auth` of the server.'),
    lastAttempt: nullable(isoTime),
    nextRetryAfter: nullable(isoTime),
  }),
  'The same facts under the keys that programs written for other gateways read.',
);
export type CompatKeys = Infer<typeof COMPAT>;

const DESIRED = named(
  'DesiredServer',
  object({
    source: oneOf(['file', 'store', 'temporary', 'program']),
    suspended: flag,
    refused: described(
      nullable(text),
      'What is wrong with the definition in its file: the server runs an earlier one. Null where it runs that.',
    ),
    origin: described(nullable(text), '`file:line` for servers of files.'),
    revision: described(nullable(count), 'Of stored servers: `changeServer` and `removeServer` may demand it.'),
    expiresAt: nullable(isoTime),
    session: described(nullable(text), 'Label of the session that it ends with.'),
  }),
);
export type DesiredView = Infer<typeof DESIRED>;

const WRITTEN_VALUE = named(
  'WrittenValue',
  object({
    key: described(text, 'Such as `env.TOKEN` and `args[1]`.'),
    value: described(text, 'JSON text as it is written: references are not replaced, secrets are masked.'),
    file: described(nullable(text), '`<run time>` for a server that was added at run time; null for a default.'),
    line: nullable(integer),
    column: nullable(integer),
  }),
);
/** The definition of a server, value by value. */
export const WRITTEN_VALUES = object({
  values: described(list(WRITTEN_VALUE), 'Those of the definition, then defaults. Empty for a server of the program.'),
});
export type WrittenValueView = Infer<typeof WRITTEN_VALUE>;

export const SERVER = named(
  'Server',
  object({
    ...OBSERVED,
    ...DEFINITION,
    desired: described(nullable(DESIRED), 'null for a server that is no longer desired.'),
    drift: described(DRIFT_SUMMARY, 'How it differs from what was approved of it; see `getDrift`.'),
    compat: COMPAT,
  }),
  'A server as this node observes it.',
);
export type ServerView = Infer<typeof SERVER>;

export const SERVERS = object({
  servers: list(SERVER),
  cursor: described(text, 'Position in the event stream: later events are not in this list.'),
});

const { state, health, reason, nextRetryAt } = OBSERVED;
const INSTANCE = named(
  'Instance',
  object({
    server: text,
    node: described(nullable(text), 'null for a lone gateway.'),
    state,
    health,
    reason,
    nextRetryAt,
  }),
  'A server as one node observes it.',
);
export const INSTANCES = object({ instances: list(INSTANCE), silent: SILENT });

const GAP = named('Gap', object({ type: constant('gap'), reason: text }), 'Entries are missing here.');

export const EVENT = named(
  'Event',
  union(
    object({ time: isoTime, type: constant('state'), server: text, ...STATE_STEP }),
    object({
      time: isoTime,
      type: constant('health'),
      server: text,
      health: oneOf(['healthy', 'unhealthy']),
      reason: nullable(text),
    }),
    object({
      time: isoTime,
      type: constant('recovery'),
      server: text,
      step: RECOVERY_STEP,
      reason: nullable(text),
    }),
    object({
      time: isoTime,
      type: constant('login'),
      server: text,
      principal: described(nullable(text), 'Whose login; null for the one that all callers share.'),
      needed: described(flag, 'The server asks for it; false: it has taken the credential of one.'),
      advice: described(nullable(text), 'What to do.'),
    }),
    object({
      time: isoTime,
      type: constant('login_ended'),
      server: text,
      principal: described(nullable(text), 'Whose credential it was for; null for the one that all callers share.'),
      login: described(text, 'Id of the login, as of `beginLogin`.'),
      reason: described(nullable(text), 'Why it has left no credential; null where it has.'),
    }),
    described(
      object({ time: isoTime, type: constant('list_item_invalid'), server: text, ...INVALID_ITEM }),
      'The gateway leaves this item out of a list of the server, because clients could not use a list with it.',
    ),
    described(
      object({
        time: isoTime,
        type: constant('condition'),
        server: described(text, 'Empty where it concerns the gateway itself.'),
        condition: CONDITION,
        holds: described(flag, 'It begins; false: it is over.'),
        reason: nullable(text),
      }),
      'A condition that needs an operator.',
    ),
    object({ time: isoTime, type: oneOf(['added', 'replaced', 'removed']), server: text }),
    described(
      object({ time: isoTime, type: constant('changed'), list: WATCHED_LIST, server: text }),
      'What this list of the API says has changed: read it again. `server` is empty where it is not about one.',
    ),
    GAP,
  ),
);

const LOG_LINE = named(
  'LogLine',
  object({
    loggedBy: described(optional(text), 'In a cluster, in the list and its stream: the node whose log it is of.'),
    time: isoTime,
    level: oneOf(['info', 'warn', 'error']),
    event: text,
    server: text,
  }),
  'As in the log of the gateway; further fields belong to the event. `server` is empty where the gateway logged of itself. `line` of `server_stderr` is what the server wrote.',
);
export const LOG_ENTRY = union(LOG_LINE, GAP);
export const LOGS = object({ entries: list(LOG_LINE), cursor: text, silent: SILENT });

export { CALL };
export const CALLS = object({ calls: list(CALL), silent: SILENT });

export const RATES = object({
  nodes: list(
    object({
      node: described(nullable(text), 'null for a lone gateway.'),
      seconds: described(list(CALL_SECOND), 'Oldest first. One in which the node stood still is missing.'),
    }),
  ),
  silent: SILENT,
});

export const LIVE = named(
  'Live',
  union(
    object({ topic: constant('hello'), node: nullable(text), events: text }),
    described(object({ topic: constant('events'), node: nullable(text), event: EVENT }), 'What becomes of a server.'),
    object({ topic: constant('logs'), node: nullable(text), entry: LOG_ENTRY }),
    object({
      topic: constant('calls'),
      calls: list(CALL),
      lost: described(flag, 'Calls are missing before these: there were more than were read.'),
    }),
    object({
      topic: constant('stats'),
      node: nullable(text),
      ...SECOND,
      sessions: described(count, 'Open sessions of clients that this node knows.'),
      servers: described(list(SERVER_RATE), 'Those with calls in the last second or in flight.'),
      clients: described(list(CLIENT_RATE), 'Those with most calls in the last second.'),
      recordings: described(
        optional(list(RECORDING)),
        "This node's part of each recording that goes on, and once more of one that has stopped; absent where there is none.",
      ),
    }),
  ),
);
export type Live = Infer<typeof LIVE>;

const SESSION = named(
  'Session',
  object({
    label: described(text, 'Short digest of the session id: names the session in paths and logs.'),
    principal: text,
    endpoint: text,
    revision: text,
    client: described(nullable(text), 'Name and version, as in `Call`.'),
    clientInfo: anyValue,
    capabilities: described(anyObject, 'What the client declared that it can do.'),
    here: described(flag, 'The node that answers has it in use.'),
    servers: described(list(text), 'Servers with a connection of its own, at the node that answers.'),
    createdAt: isoTime,
    lastSeenAt: isoTime,
  }),
);
/** A client session for display; the session id itself is a secret and is never shown. */
export type SessionView = Infer<typeof SESSION>;
export const SESSIONS = object({
  sessions: list(SESSION),
  total: described(count, 'Number of open sessions; up to 30 s old.'),
});
export type SessionsView = Infer<typeof SESSIONS>;
export const SESSION_ENDED = object({ ended: flag });

const FACTS = {
  version: text,
  pid: integer,
  startedAt: isoTime,
  mcpUrl: text,
  controlUrl: text,
  files: list(text),
  configVersion: described(count, 'Increases with every change of the desired state.'),
  processes: PROCESSES,
  configProblem: described(nullable(text), 'What was wrong with the last reading of the configuration.'),
  desiredProblems: described(
    list(text),
    'What should run and does not, or could not be read: of the files, of the store.',
  ),
  conditions: described(
    list(object({ name: CONDITION, server: described(nullable(text), 'Null for the gateway itself.'), reason: text })),
    'Conditions that need an operator, as long as they hold.',
  ),
};
const READINESS = {
  ready: flag,
  reason: described(text, 'Why it is not ready; empty when it is.'),
  degraded: described(list(text), 'What of the cluster is away or overloaded; calls that do not need it succeed.'),
};
const GATEWAY_FACTS = object(FACTS);
const READY = object(READINESS);
export type GatewayFacts = Infer<typeof GATEWAY_FACTS>;
/** Whether calls can be accepted; independent of single servers. */
export type Readiness = Infer<typeof READY>;
export const GATEWAY = named('Gateway', object({ ...FACTS, ...READINESS }));
export const GATEWAYS = object({
  gateways: list(
    named('GatewayOfNode', object({ node: described(nullable(text), 'Null for a lone one.'), ...FACTS, ...READINESS })),
  ),
  silent: SILENT,
});

export const OUTCOME = named(
  'Outcome',
  object({
    outcome: oneOf(['RESULT', 'NOT_SENT', 'UNKNOWN', 'REFUSED']),
    result: described(optional(anyObject), "The server's result, as it wrote it; present with RESULT."),
    error: described(optional(anyObject), 'A JSON-RPC error: of the server with RESULT, of the gateway otherwise.'),
  }),
);

export const CALL_STEP = union(
  object({ progress: described(anyObject, 'Params of a progress notification, as the server wrote them.') }),
  OUTCOME,
);

const NODE = named(
  'Node',
  object({
    node: text,
    peer: described(text, 'Its name on the bus; new with every start.'),
    here: described(flag, 'The node that answers.'),
    state: oneOf(['joining', 'ready', 'fenced', 'draining']),
    version: text,
    protocols: described(list(integer), 'The oldest and the newest that it speaks.'),
    epoch: described(text, 'Of its lease; empty without one.'),
    calls: described(count, 'Calls of other nodes that it serves at the moment.'),
    startedAt: isoTime,
    servers: described(list(text), 'Of its own files.'),
    busy: described(nullable(count), 'Calls in flight at its servers; null from nodes of earlier versions.'),
    owned: described(nullable(count), 'Sessions with processes, and singletons, that are its own; null as for `busy`.'),
    full: described(list(text), 'Its servers that are at their limit of processes.'),
  }),
);
export type NodeEntry = Infer<typeof NODE>;

const CONFLICT = named(
  'DefinitionConflict',
  object({
    server: text,
    sides: described(list(list(text)), 'The nodes of each definition, those first that calls go to.'),
  }),
);
/** Different definitions of one server name. */
export type DefinitionConflict = Infer<typeof CONFLICT>;
const OWNED = named(
  'Owned',
  object({
    server: text,
    of: oneOf(['all', 'session', 'principal']),
    session: described(nullable(text), 'Label of the session whose processes these are.'),
    principal: nullable(text),
    epoch: described(text, 'Fencing token: grows with every change of owner.'),
    processes: count,
  }),
);
/** Processes that only one node of the cluster may run. */
export type OwnedView = Infer<typeof OWNED>;

const SHARED_PART = named(
  'SharedPart',
  object({
    part: oneOf(['bus', 'lease', 'store', 'configuration']),
    healthy: flag,
    detail: described(text, 'What is the matter, or what is known of it.'),
  }),
);
/** A part that the nodes share, as the answering node sees it. */
export type SharedPart = Infer<typeof SHARED_PART>;
export const NODES = object({
  nodes: list(NODE),
  conflicts: list(CONFLICT),
  owned: described(list(OWNED), 'What the node that answers owns.'),
  shared: described(list(SHARED_PART), 'What the nodes share, as the node that answers sees it.'),
});
export type NodesView = Infer<typeof NODES>;
export const DRAINING = object({ draining: text });
export const STOPPING = object({ stopping: described(count, 'Id of the process.') });

export const DRIFT = object({ servers: list(DRIFT_REPORT) });
export const REMOVED = object({ removed: flag });

export const DEFINITION_PROBLEM = named(
  'DefinitionProblem',
  object({ code: text, line: count, column: count, message: text, frame: text, fix: text }),
  'A fault of a definition, as `trunkline check` prints it; the file is the body.',
);
export const ERROR = named(
  'Error',
  object({ error: object({ code: text, message: text, problems: optional(list(DEFINITION_PROBLEM)) }) }),
);
