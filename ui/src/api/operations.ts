// Generated from schema/openapi.json by: npm run generate
import { type CallOptions, query, request, type StreamOptions, stream } from './request.ts';

export type Gateway = {
readonly version: string;
readonly pid: number;
readonly startedAt: string;
readonly mcpUrl: string;
readonly controlUrl: string;
readonly files: readonly (string)[];
/** Increases with every change of the desired state. */
readonly configVersion: number;
readonly processes: Processes;
/** What was wrong with the last reading of the configuration. */
readonly configProblem: string | null;
/** What should run and does not, or could not be read: of the files, of the store. */
readonly desiredProblems: readonly (string)[];
/** Conditions that need an operator, as long as they hold. */
readonly conditions: readonly ({
readonly name: Condition;
/** Null for the gateway itself. */
readonly server: string | null;
readonly reason: string
})[];
readonly ready: boolean;
/** Why it is not ready; empty when it is. */
readonly reason: string;
/** What of the cluster is away or overloaded; calls that do not need it succeed. */
readonly degraded: readonly (string)[]
};

/** Processes on this node, and the limit. */
export type Processes = {
readonly running: number;
readonly limit: number
};

export type Condition = "server_down" | "login_needed" | "drift_blocked" | "node_lost" | "bus_lost" | "store_unreachable" | "configuration_unreadable" | "disk_not_writable" | "memory_short" | "processes_near_limit" | "sessions_near_limit";

export type GatewayOfNode = {
/** Null for a lone one. */
readonly node: string | null;
readonly version: string;
readonly pid: number;
readonly startedAt: string;
readonly mcpUrl: string;
readonly controlUrl: string;
readonly files: readonly (string)[];
/** Increases with every change of the desired state. */
readonly configVersion: number;
readonly processes: Processes;
/** What was wrong with the last reading of the configuration. */
readonly configProblem: string | null;
/** What should run and does not, or could not be read: of the files, of the store. */
readonly desiredProblems: readonly (string)[];
/** Conditions that need an operator, as long as they hold. */
readonly conditions: readonly ({
readonly name: Condition;
/** Null for the gateway itself. */
readonly server: string | null;
readonly reason: string
})[];
readonly ready: boolean;
/** Why it is not ready; empty when it is. */
readonly reason: string;
/** What of the cluster is away or overloaded; calls that do not need it succeed. */
readonly degraded: readonly (string)[]
};

/** A server as this node observes it. */
export type Server = {
readonly name: string;
readonly state: ServerState;
readonly health: Health;
/** Why it is not healthy, with the remedy where it is known. */
readonly reason: string | null;
/** Set while the state is `auth_required`. */
readonly authChallenge: AuthChallenge | null;
readonly transport: Transport;
/** The URL of a remote server. */
readonly endpoint: string | null;
/** Name or id of the container that it is attached to. */
readonly containerId: string | null;
/** The host that it runs on, where ssh reaches it. */
readonly sshHost: string | null;
readonly era: "stateful" | "stateless" | null;
readonly revision: string | null;
readonly initialized: boolean;
/** In the list that the server gave last, to whichever client; with what filters or approvals withhold. It may give clients of other capabilities another. */
readonly toolCount: number;
/** Names of the server, sorted. */
readonly tools: readonly (string)[];
readonly promptCount: number;
readonly resourceCount: number;
/** How long a start may take. */
readonly startupTimeoutMs: number;
/** From the start to the first catalogue; null until then. */
readonly startedInMs: number | null;
readonly consecutiveFailures: number;
readonly restarts: number;
/** Milliseconds since 1970. */
readonly lastAttemptAt: number | null;
/** Milliseconds since 1970. */
readonly nextRetryAt: number | null;
readonly lastExit: ProcessExit | null;
/** The end of the standard error of its process; secrets are masked. */
readonly stderrTail: string;
/** null when the last start succeeded, or there was none. */
readonly lastLaunchFailure: LaunchFailure | null;
readonly connections: readonly (Connection)[];
/** Where several processes share its calls; else empty. */
readonly replicas: readonly (Replica)[];
/** Connections by state. */
readonly pool: {
readonly active: number;
readonly idle: number;
readonly closed: number
};
/** null where no process of it starts here. */
readonly processes: Processes | null;
/** The last 50 steps from state to state, oldest first. */
readonly history: readonly (StateChange)[];
/** null for servers without a URL, and before the first request. */
readonly phases: RequestPhases | null;
/** The catalogue is a remembered one: the server has not been listed since the start. */
readonly catalogFromStore: boolean;
readonly enabled: boolean;
readonly start: "eager" | "lazy";
/** null where the gateway starts no process. */
readonly command: string | null;
readonly args: readonly (string)[];
/** Names; the values are redacted. */
readonly env: Readonly<Record<string, string>>;
/** Names; the values are redacted. */
readonly headers: Readonly<Record<string, string>>;
/** Its credentials: a header or variable named like one, OAuth as `auth` of the definition says, or a program. null for none. */
readonly auth: "static" | "oauth" | "program" | null;
readonly timeoutMs: number;
readonly description: string | null;
/** null for a server that is no longer desired. */
readonly desired: DesiredServer | null;
/** How it differs from what was approved of it; see `getDrift`. */
readonly drift: DriftSummary;
readonly compat: CompatKeys
};

export type ServerState = "unknown" | "starting" | "running" | "connected" | "stopping" | "stopped" | "disconnected" | "degraded" | "failed" | "unreachable" | "auth_required" | "misconfigured" | "defect" | "suspended";

export type Health = "unknown" | "healthy" | "unhealthy";

export type AuthChallenge = {
readonly resourceMetadata: string | null;
readonly scope: string | null;
/** `authorization_uri` or `issuer` of the challenge. */
readonly issuer: string | null
};

export type Transport = "stdio" | "docker" | "http" | "sse" | "json" | "memory";

export type ProcessExit = {
readonly code: number | null;
readonly signal: string | null
};

export type LaunchFailure = {
/** Milliseconds since 1970. */
readonly at: number;
/** The step of the start that failed; those before it went well. */
readonly step: StartStep;
readonly error: string;
/** The most probable reason, with the remedy. */
readonly likelyCause: string | null;
/** null where the gateway starts nothing. */
readonly command: string | null;
/** Secrets are masked. */
readonly arguments: readonly (string)[];
/** Names of the declared variables, sorted. */
readonly environment: readonly (string)[];
/** Names of variables that the server should get and that are not set, sorted. */
readonly missingVariables: readonly (string)[];
/** Whether the gateway itself runs in a container. */
readonly inContainer: boolean;
readonly exit: ProcessExit | null;
/** The end of what the process wrote to standard error in that start; secrets are masked. */
readonly stderrTail: string
};

export type StartStep = "definition" | "command" | "name" | "connection" | "certificate" | "start" | "http" | "login" | "initialize";

export type Connection = {
/** `server/key`, a slash within a part encoded (S1.2). */
readonly id: string;
/** `shared`, `spare`, `principal …` or `session …`; never the session id on the wire. */
readonly key: string;
/** `active`: requests in flight; `idle`: none; `closed`: about to end. */
readonly state: "active" | "idle" | "closed";
readonly pid: number | null;
/** Of its process, in `getServer`, where the node runs on Linux. */
readonly usage?: ProcessUsage;
readonly inFlight: number;
/** Milliseconds since 1970. */
readonly createdAt: number;
/** Milliseconds since 1970. */
readonly lastUsedAt: number;
readonly requests: number;
/** Requests that were lost or timed out. An error of the server is an answer. */
readonly errors: number;
/** Those since the last answered request. */
readonly consecutiveErrors: number;
readonly lastError: string | null
};

/** What a process uses of the machine of its node. */
export type ProcessUsage = {
/** The process and its children in the same process group. */
readonly processes: number;
/** Resident memory; shared pages count for each process. */
readonly memoryBytes: number;
/** Processor time since they started. */
readonly cpuMs: number
};

export type Replica = {
/** From 1. */
readonly replica: number;
readonly era: "stateful" | "stateless";
readonly state: ServerState;
readonly health: Health;
/** Why it does not serve, or not well. */
readonly reason: string | null;
readonly pid: number | null;
readonly inFlight: number;
/** Sessions and handles that keep to it. */
readonly bound: number;
readonly restarts: number;
readonly consecutiveFailures: number;
/** Milliseconds since 1970. */
readonly nextRetryAt: number | null
};

export type StateChange = {
readonly from: ServerState;
readonly to: ServerState;
/** In words; null for the usual course. */
readonly reason: string | null;
/** The class of the failure that caused the step. */
readonly failure: FailureClass | null;
/** Set on the way to `auth_required`. */
readonly challenge: AuthChallenge | null;
/** Milliseconds since 1970. */
readonly at: number
};

export type FailureClass = "configuration" | "tls" | "auth" | "transient" | "abort" | "defect";

export type RequestPhases = {
readonly dns: PhaseFigures | null;
readonly tcp: PhaseFigures | null;
readonly tls: PhaseFigures | null;
readonly firstByte: PhaseFigures | null;
readonly slowest: "dns" | "tcp" | "tls" | "firstByte";
/** What is slow, in a sentence. */
readonly summary: string
};

export type PhaseFigures = {
readonly lastMs: number;
readonly p50Ms: number;
readonly p95Ms: number;
readonly count: number
};

export type DesiredServer = {
readonly source: "file" | "store" | "temporary" | "program";
readonly suspended: boolean;
/** What is wrong with the definition in its file: the server runs an earlier one. Null where it runs that. */
readonly refused: string | null;
/** `file:line` for servers of files. */
readonly origin: string | null;
/** Of stored servers: `changeServer` and `removeServer` may demand it. */
readonly revision: number | null;
readonly expiresAt: string | null;
/** Label of the session that it ends with. */
readonly session: string | null
};

export type DriftSummary = {
readonly policy: DriftPolicy;
readonly waiting: number;
/** Of those: not offered as the server says it. */
readonly withheld: number;
readonly findings: number;
readonly problem: string | null
};

/** What happens to a definition that is not approved: nothing, a warning, the approved one is offered, or none. */
export type DriftPolicy = "off" | "warn" | "hold" | "block";

/** The same facts under the keys that programs written for other gateways read. */
export type CompatKeys = {
readonly type: Transport;
readonly serviceType: "mcpserver";
/** Reached by URL. */
readonly external: boolean;
/** A process of this machine. */
readonly localProcess: boolean;
/** Reached through a remote shell. */
readonly ssh: boolean;
readonly autoStart: boolean;
readonly url: string | null;
/** Seconds. */
readonly timeout: number;
readonly error: string | null;
readonly clientReady: boolean;
readonly client: {
readonly transport: Transport;
readonly revision: string | null
} | null;
/** Its tools are exposed under this prefix. */
readonly toolPrefix: string;
/** This gateway has no families of equivalent servers. */
readonly family: null;
/** As `auth` of the server. */
readonly auth: {
readonly type: "static" | "oauth" | "program"
} | null;
readonly lastAttempt: string | null;
readonly nextRetryAfter: string | null
};

/** A server as one node observes it. */
export type Instance = {
readonly server: string;
/** null for a lone gateway. */
readonly node: string | null;
readonly state: ServerState;
readonly health: Health;
/** Why it is not healthy, with the remedy where it is known. */
readonly reason: string | null;
/** Milliseconds since 1970. */
readonly nextRetryAt: number | null
};

export type WrittenValue = {
/** Such as `env.TOKEN` and `args[1]`. */
readonly key: string;
/** JSON text as it is written: references are not replaced, secrets are masked. */
readonly value: string;
/** `<run time>` for a server that was added at run time; null for a default. */
readonly file: string | null;
readonly line: number | null;
readonly column: number | null
};

export type Outcome = {
readonly outcome: "RESULT" | "NOT_SENT" | "UNKNOWN" | "REFUSED";
/** The server's result, as it wrote it; present with RESULT. */
readonly result?: Readonly<Record<string, unknown>>;
/** A JSON-RPC error: of the server with RESULT, of the gateway otherwise. */
readonly error?: Readonly<Record<string, unknown>>
};

export type Event = {
readonly time: string;
readonly type: "state";
readonly server: string;
readonly from: ServerState;
readonly to: ServerState;
/** In words; null for the usual course. */
readonly reason: string | null;
/** The class of the failure that caused the step. */
readonly failure: FailureClass | null;
/** Set on the way to `auth_required`. */
readonly challenge: AuthChallenge | null
} | {
readonly time: string;
readonly type: "health";
readonly server: string;
readonly health: "healthy" | "unhealthy";
readonly reason: string | null
} | {
readonly time: string;
readonly type: "recovery";
readonly server: string;
readonly step: "started" | "succeeded" | "failed";
readonly reason: string | null
} | {
readonly time: string;
readonly type: "login";
readonly server: string;
/** Whose login; null for the one that all callers share. */
readonly principal: string | null;
/** The server asks for it; false: it has taken the credential of one. */
readonly needed: boolean;
/** What to do. */
readonly advice: string | null
} | {
readonly time: string;
readonly type: "login_ended";
readonly server: string;
/** Whose credential it was for; null for the one that all callers share. */
readonly principal: string | null;
/** Id of the login, as of `beginLogin`. */
readonly login: string;
/** Why it has left no credential; null where it has. */
readonly reason: string | null
} | {
readonly time: string;
readonly type: "list_item_invalid";
readonly server: string;
/** The method that lists it. */
readonly list: string;
/** From 0, as `index`. */
readonly page: number;
readonly index: number;
/** Its own name, where it has one. */
readonly item: string | null;
readonly reason: string
} | {
readonly time: string;
readonly type: "condition";
/** Empty where it concerns the gateway itself. */
readonly server: string;
readonly condition: Condition;
/** It begins; false: it is over. */
readonly holds: boolean;
readonly reason: string | null
} | {
readonly time: string;
readonly type: "added" | "replaced" | "removed";
readonly server: string
} | {
readonly time: string;
readonly type: "changed";
readonly list: "drift" | "tools" | "tasks" | "configuration" | "nodes" | "recordings";
readonly server: string
} | Gap;

/** Entries are missing here. */
export type Gap = {
readonly type: "gap";
readonly reason: string
};

/** As in the log of the gateway; further fields belong to the event. `server` is empty where the gateway logged of itself. `line` of `server_stderr` is what the server wrote. */
export type LogLine = {
/** In a cluster, in the list and its stream: the node whose log it is of. */
readonly loggedBy?: string;
readonly time: string;
readonly level: "info" | "warn" | "error";
readonly event: string;
readonly server: string
};

export type Session = {
/** Short digest of the session id: names the session in paths and logs. */
readonly label: string;
readonly principal: string;
readonly endpoint: string;
readonly revision: string;
/** Name and version, as in `Call`. */
readonly client: string | null;
readonly clientInfo: unknown;
/** What the client declared that it can do. */
readonly capabilities: Readonly<Record<string, unknown>>;
/** The node that answers has it in use. */
readonly here: boolean;
/** Servers with a connection of its own, at the node that answers. */
readonly servers: readonly (string)[];
readonly createdAt: string;
readonly lastSeenAt: string
};

/** One request of a client, from its arrival to its answer. */
export type Call = {
/** Unique over all nodes: names the call in paths. */
readonly id: string;
/** Names it in the log of its node. */
readonly request: string;
/** When it came in. */
readonly time: string;
/** Until it was answered. */
readonly ms: number;
/** Until it was given to its server; null where that did not happen. */
readonly waitedMs: number | null;
readonly method: string;
readonly endpoint: string;
/** Name and version that the client gives itself. */
readonly client: string | null;
readonly principal: string;
/** Label of its session. */
readonly session: string | null;
readonly revision: string;
readonly server: string | null;
/** The server's own name of the tool or prompt, or the URI; null where the request names none, or none that leads anywhere. */
readonly name: string | null;
/** What the client named, where the call ended before that led to anything of a server: `reason` says why. */
readonly asked?: string;
readonly outcome: "RESULT" | "NOT_SENT" | "UNKNOWN" | "REFUSED";
/** The JSON-RPC error code, or `tool_error` where the tool says that it failed; null for success. */
readonly error: string | null;
/** Why the gateway refused it or could not make it. */
readonly reason: string | null;
readonly requestBytes: number;
readonly answerBytes: number;
/** The node that its client is connected to; null for a lone gateway. */
readonly node: string | null;
/** The other node that had the server; null where it was this one. */
readonly servedBy: string | null;
/** How often it was tried: more than 1 where a node, or a connection to its server, failed. */
readonly tries: number;
/** The last of them, oldest first; absent where the first was the only one. */
readonly attempts?: readonly (CallAttempt)[];
/** Trace id; null where no trace was recorded. */
readonly trace: string | null
};

export type CallAttempt = {
/** When it began, from the arrival of the call. */
readonly atMs: number;
/** Until it ended. */
readonly ms: number;
/** The node that had it; null for a lone gateway. */
readonly node: string | null;
/** The connection to the server that had it; null where none had, or is known. */
readonly connection: string | null;
/** The server's process at that connection. */
readonly pid: number | null;
readonly outcome: "RESULT" | "NOT_SENT" | "UNKNOWN" | "REFUSED";
/** Why it failed; null for one that was answered. */
readonly reason: string | null
};

/** What the clients of a node called in one second. */
export type CallSecond = {
/** The end of the second, a whole one. */
readonly time: string;
readonly calls: number;
readonly errors: number;
/** Of the calls of this second; null where there was none. */
readonly p50: number | null;
readonly p95: number | null;
readonly p99: number | null
};

export type Live = {
readonly topic: "hello";
readonly node: string | null;
readonly events: string
} | {
readonly topic: "events";
readonly node: string | null;
readonly event: Event
} | {
readonly topic: "logs";
readonly node: string | null;
readonly entry: LogLine | Gap
} | {
readonly topic: "calls";
readonly calls: readonly (Call)[];
/** Calls are missing before these: there were more than were read. */
readonly lost: boolean
} | {
readonly topic: "stats";
readonly node: string | null;
/** The end of the second, a whole one. */
readonly time: string;
readonly calls: number;
readonly errors: number;
/** Of the calls of this second; null where there was none. */
readonly p50: number | null;
readonly p95: number | null;
readonly p99: number | null;
/** Open sessions of clients that this node knows. */
readonly sessions: number;
/** Those with calls in the last second or in flight. */
readonly servers: readonly (ServerRate)[];
/** Those with most calls in the last second. */
readonly clients: readonly (ClientRate)[];
/** This node's part of each recording that goes on, and once more of one that has stopped; absent where there is none. */
readonly recordings?: readonly (Recording)[]
};

/** What a server has done in the last second. */
export type ServerRate = {
readonly server: string;
readonly calls: number;
readonly errors: number;
/** Of the calls of this second; null where there was none. */
readonly p50: number | null;
readonly p95: number | null;
readonly p99: number | null;
readonly inFlight: number
};

/** What clients of one name have called in the last second. */
export type ClientRate = {
/** Name and version that it gives itself; null where it gives none. */
readonly client: string | null;
/** That of its last call. */
readonly revision: string;
readonly calls: number;
readonly errors: number;
/** Of the calls of this second; null where there was none. */
readonly p50: number | null;
readonly p95: number | null;
readonly p99: number | null
};

/** A recording of both wires. */
export type Recording = {
readonly id: string;
/** Label of a session that is open. */
readonly session: string | null;
/** The next session of a client that gives this name of itself. */
readonly client: string | null;
/** The next session of this principal, such as `agent:ada`. */
readonly principal: string | null;
/** Alone: all that passes between the gateway and this server, and the sessions at its own endpoint. Otherwise only this server of the session. */
readonly server: string | null;
/** The only node that records; null where all do. */
readonly node: string | null;
/** The nodes that keep a part of it; none for a lone gateway. */
readonly nodes: readonly (string)[];
readonly state: "waiting" | "recording" | "stopped";
/** Why it stopped. */
readonly reason: string | null;
readonly startedAt: string;
readonly entries: number;
readonly bytes: number;
readonly maxEntries: number;
readonly maxBytes: number;
/** Labels of the sessions in it. */
readonly sessions: readonly (string)[];
/** The servers in it. */
readonly servers: readonly (string)[]
};

export type Tool = {
readonly exposedName: string;
readonly server: string;
readonly name: string;
/** Why the exposed name is not `server__name`; null where it is. */
readonly renamed: string | null;
/** Length of the definition as clients of `/mcp` get it. */
readonly bytes: number;
/** Estimate of what the definition costs in a context: a quarter of its bytes. */
readonly tokens: number;
/** Of the calls that this node keeps, see `listCalls`; null for none. */
readonly lastUsed: string | null;
/** As the server wrote it. */
readonly definition: Readonly<Record<string, unknown>>
};

/** A tool that a server lists and clients do not get. */
export type HiddenTool = {
readonly server: string;
readonly name: string;
/** `filtered`: by includeTools or excludeTools; `withheld`: waits for approval or is blocked; `unnamed`: no name that clients accept. */
readonly state: "filtered" | "withheld" | "unnamed";
readonly reason: string
};

export type ClientView = {
readonly client: string;
readonly title: string;
/** Longest name, as the client counts it. */
readonly limit: number;
/** The most tools that it gives to a model; null for no known limit. */
readonly maxTools: number | null;
/** Tools whose names fit or are shortened. */
readonly offered: number;
/** Estimate for all that is offered. */
readonly tokens: number;
/** It sends definitions only when the model searches for a tool. */
readonly deferred: boolean;
readonly tools: readonly ({
readonly server: string;
readonly exposedName: string;
/** The name as the model gets it, before it is shortened. */
readonly shown: string;
readonly length: number;
/** What happens because the name is too long: the tool is left out, the name is shortened, or the API of the model refuses the request. null where it fits. */
readonly beyond: "dropped" | "shortened" | "refused" | null;
readonly tokens: number
})[]
};

/** The server waits for an answer of the client. */
export type PlayQuestion = {
readonly key: string;
readonly method: string;
readonly params: Readonly<Record<string, unknown>>
};

/** The last step. The answer itself is the last message that was received. */
export type PlayEnd = {
readonly outcome: "RESULT" | "NOT_SENT" | "UNKNOWN" | "REFUSED" | "CANCELLED";
readonly reason: string | null
};

/** A call, and the client that makes it. */
export type Play = {
/** Of the protocol: `tools/call`, `prompts/get`, `resources/read`, a list, … */
readonly method: string;
readonly params?: Readonly<Record<string, unknown>>;
/** The revision of the protocol that the client speaks. */
readonly revision: "2024-11-05" | "2025-03-26" | "2025-06-18" | "2025-11-25" | "2026-07-28";
/** Its endpoint; that of all servers where it is null. */
readonly server?: string | null;
/** An agent of the configuration, or `anonymous`; else the operator. */
readonly principal?: string | null;
/** What the client says that it can do; by default it takes elicitation, sampling and MCP Apps. */
readonly capabilities?: Readonly<Record<string, unknown>>
};

export type PlayAnswer = {
/** Its key. */
readonly question?: string;
readonly result?: Readonly<Record<string, unknown>>;
/** With `code` and `message`, in place of a result. */
readonly error?: Readonly<Record<string, unknown>>;
/** Cancels the call, for this reason; nothing else is needed then. */
readonly cancel?: string
};

/** The document of an MCP App. */
export type AppDocument = {
readonly html: string;
/** As `_meta.ui.csp` of the resource; nothing else may be reached. */
readonly csp?: {
readonly connectDomains?: readonly (string)[];
readonly resourceDomains?: readonly (string)[];
readonly frameDomains?: readonly (string)[]
}
};

export type Replay = {
readonly server: string;
/** Requests that were sent again. */
readonly replayed: number;
/** Requests that were not, and why. */
readonly skipped: readonly (string)[];
readonly differences: readonly (Difference)[]
};

export type Difference = {
/** Which request of the recording, from 1. */
readonly step: number;
/** Its method and name. */
readonly request: string;
/** Where in the answer, such as `$.result.content[0].text`. */
readonly path: string;
/** JSON text as recorded; null where there was nothing. */
readonly before: string | null;
/** JSON text of the replay; null where there is nothing. */
readonly after: string | null
};

export type ReplayTest = {
/** A program for `node --test`, as an ECMAScript module. */
readonly text: string
};

export type Node = {
readonly node: string;
/** Its name on the bus; new with every start. */
readonly peer: string;
/** The node that answers. */
readonly here: boolean;
readonly state: "joining" | "ready" | "fenced" | "draining";
readonly version: string;
/** The oldest and the newest that it speaks. */
readonly protocols: readonly (number)[];
/** Of its lease; empty without one. */
readonly epoch: string;
/** Calls of other nodes that it serves at the moment. */
readonly calls: number;
readonly startedAt: string;
/** Of its own files. */
readonly servers: readonly (string)[];
/** Calls in flight at its servers; null from nodes of earlier versions. */
readonly busy: number | null;
/** Sessions with processes, and singletons, that are its own; null as for `busy`. */
readonly owned: number | null;
/** Its servers that are at their limit of processes. */
readonly full: readonly (string)[]
};

export type DefinitionConflict = {
readonly server: string;
/** The nodes of each definition, those first that calls go to. */
readonly sides: readonly (readonly (string)[])[]
};

export type Owned = {
readonly server: string;
readonly of: "all" | "session" | "principal";
/** Label of the session whose processes these are. */
readonly session: string | null;
readonly principal: string | null;
/** Fencing token: grows with every change of owner. */
readonly epoch: string;
readonly processes: number
};

export type SharedPart = {
readonly part: "bus" | "lease" | "store" | "configuration";
readonly healthy: boolean;
/** What is the matter, or what is known of it. */
readonly detail: string
};

export type Credential = {
readonly server: string;
/** Whose it is: `agent:<name>`; null for one that all callers share. */
readonly principal: string | null;
readonly state: "connected" | "expired" | "login_required" | "failed";
/** In words; null where all is well. */
readonly reason: string | null;
readonly issuer: string | null;
readonly clientId: string | null;
readonly scopes: readonly (string)[];
/** null where the token does not end. */
readonly expiresAt: number | null;
/** The gateway renews it without its user. */
readonly refreshable: boolean;
/** A program that the definition names gives it; else a login, or a grant without a user. */
readonly program: boolean;
/** Milliseconds since 1970. */
readonly changedAt: number
};

export type StartedLogin = {
readonly id: string;
readonly server: string;
/** What a browser has to open, within ten minutes. */
readonly url: string;
/** Of the device grant (RFC 8628): what the user types there; else null. */
readonly userCode: string | null;
/** Milliseconds since 1970. */
readonly expiresAt: number
};

export type SignIn = {
readonly server: string;
/** Whether a user can sign in at the server. */
readonly possible: boolean;
/** Why not; null where one can. */
readonly reason: string | null;
/** What the definition says; null for a server that is not behind a URL. */
readonly auth: {
readonly grant: "authorization_code" | "client_credentials" | "token_exchange" | "enterprise_managed" | "workload_identity";
readonly clientId: string | null;
readonly scopes: readonly (string)[] | null;
readonly issuer: string | null;
readonly per: "gateway" | "principal";
readonly dpop: boolean
} | null;
readonly credentials: readonly (Credential)[];
/** Of the last sign-in at this node and of renewals since, oldest first; 60 at most. */
readonly steps: readonly (SignInStep)[]
};

export type SignInStep = {
/** Milliseconds since 1970. */
readonly at: number;
/** `challenge`: a request without a token. `authorization`: where the browser is sent. `redirect`: what it brings back. */
readonly step: "challenge" | "resource metadata" | "issuer metadata" | "registration" | "authorization" | "redirect" | "token" | "user code" | "revocation";
readonly method: string | null;
/** Without the values of `code` and `state`. */
readonly url: string;
/** Of the answer; null without one. */
readonly status: number | null;
readonly ms: number | null;
/** Parameters that were sent; what is secret is `[redacted]`. */
readonly request: Readonly<Record<string, string>>;
/** The document, without secrets; of `challenge` its `WWW-Authenticate`. */
readonly answer: unknown;
/** Why there is no good answer; null where all is well. */
readonly problem: string | null
};

export type SignInCheck = {
readonly server: string;
/** Whether no step failed. */
readonly ok: boolean;
readonly steps: readonly (SignInFinding)[]
};

export type SignInFinding = {
/** As in SignInStep. A step that fails is the last. */
readonly step: "challenge" | "resource metadata" | "issuer metadata" | "registration" | "authorization" | "token";
readonly state: "ok" | "warning" | "failed";
/** What was found, or what is wrong. */
readonly text: string;
/** What to do; null where nothing has to be done. */
readonly fix: string | null;
/** What was asked for it, in order; empty where nothing had to be. */
readonly requests: readonly (SignInStep)[]
};

export type StoredSecret = {
readonly name: string;
/** `unreadable`: the key that sealed it is gone; it has to be set again. */
readonly state: "kept" | "unreadable";
/** Milliseconds since 1970. */
readonly changedAt: number | null
};

export type DriftReport = {
readonly server: string;
readonly policy: DriftPolicy;
/** First use, in milliseconds since 1970; null before it. */
readonly trustedAt: number | null;
readonly pinned: number;
/** Whether it is known what the server offers now. */
readonly listed: boolean;
readonly waiting: readonly (WaitingDefinition)[];
readonly findings: readonly (Finding)[];
/** Why pins are not saved. */
readonly problem: string | null
};

export type WaitingDefinition = {
readonly list: PinnedList;
/** Name or URI template; empty for instructions. */
readonly key: string;
readonly change: "added" | "changed" | "removed" | "blocked";
/** Of what the server offers now; null where it is gone. An approval names it. */
readonly digest: string | null;
/** Of what was approved last. */
readonly before: string | null;
readonly severity: Severity;
readonly reasons: readonly (string)[];
/** What clients are offered meanwhile: what the server says now, what was approved, or nothing. */
readonly offered: "present" | "approved" | "nothing";
readonly fields: readonly (FieldDifference)[]
};

export type PinnedList = "tools" | "prompts" | "resourceTemplates" | "instructions";

/** Whether valid calls can fail now, or more than words changed, or words alone. */
export type Severity = "breaking" | "behaviour" | "wording";

export type FieldDifference = {
/** JSON Pointer into the definition; empty for all of it. */
readonly pointer: string;
/** JSON text; null where the field was absent. */
readonly before: string | null;
/** JSON text; null where the field is absent. */
readonly after: string | null;
/** Of texts: word by word. */
readonly words: readonly ({
readonly kind: "same" | "removed" | "added";
readonly text: string
})[] | null
};

export type Finding = {
readonly list: "tools" | "prompts" | "resourceTemplates" | "instructions" | "resources";
readonly key: string;
/** `hidden`: invisible characters. `instruction`: words to a model rather than about the tool. `secret_place`: where keys are kept. `markup`: the frames of prompts. `lookalike`: letters of two scripts in one word. `encoded`: text that people cannot read. `other_server`: the name of another server. `same_name`: another server has a tool of that name. `oversized`: more text than the scan reads. */
readonly kind: "hidden" | "instruction" | "secret_place" | "markup" | "lookalike" | "encoded" | "other_server" | "same_name" | "oversized";
/** Hardly ever innocent: under `hold` and `block` it is not trusted at first use either. */
readonly grave: boolean;
/** JSON Pointer into the definition. */
readonly pointer: string;
/** Printable, and short. */
readonly excerpt: string
};

export type DriftHistory = {
readonly events: readonly (DriftRecord)[]
};

export type DriftRecord = {
readonly id: string;
readonly at: string;
readonly kind: "trusted" | "added" | "changed" | "removed" | "approved" | "blocked";
/** null for `trusted`, which concerns the whole server. */
readonly name: {
readonly list: PinnedList;
/** Name or URI template; empty for instructions. */
readonly key: string
} | null;
readonly digest: string | null;
/** The digest that was approved before. */
readonly before: string | null;
readonly severity: Severity | null;
/** Who decided; null for what the server did. */
readonly by: string | null;
readonly text: string
};

export type Access = {
/** What callers without a known key get: nothing, or everything; without agents everything. */
readonly unknownCallers: "refuse" | "allow";
readonly servers: readonly ({
readonly server: string;
/** Whether its tools are known. */
readonly listed: boolean;
/** Its tools by their own names, with those that it withholds from all callers. */
readonly tools: readonly (string)[]
})[];
/** `anonymous` is one of them if it is allowed. */
readonly callers: readonly (Caller)[]
};

export type Caller = {
readonly principal: string;
readonly name: string;
/** The environment variable that holds the key; null where no file names one. */
readonly variable: string | null;
/** In the order of `servers` of the answer. */
readonly servers: readonly ({
readonly server: string;
/** Why the caller may not use the server at all; null where it may. */
readonly refusal: {
readonly policy: PolicyName;
readonly code: string;
readonly reason: string
} | null;
/** How many of its tools the caller may call. */
readonly allowed: number;
/** The others, each with the policy that decides. */
readonly refused: readonly ({
readonly tool: string;
readonly policy: PolicyName;
readonly code: string;
readonly reason: string
})[]
})[]
};

/** In the order in which they are asked. `access`: `agents.<name>.servers`. `toolFilter`: `includeTools`, `excludeTools`. `approved`: drift. `paramHeaders`: `Mcp-Param-*` headers. `rateLimit`: `limits.callsPerMinute`. */
export type PolicyName = "access" | "toolFilter" | "approved" | "paramHeaders" | "rateLimit";

export type Explanation = {
readonly principal: string;
readonly server: string;
readonly tool: string;
/** Whether the server is known to have a tool of this name. */
readonly known: boolean;
readonly allowed: boolean;
/** The policy that refuses; null where none does. */
readonly decidedBy: PolicyName | null;
/** In the order in which the policies are asked, up to the one that refuses. */
readonly verdicts: readonly (PolicyVerdict)[]
};

export type PolicyVerdict = {
readonly policy: PolicyName;
/** `undecided`: the server was not listed yet; the call would list it first. */
readonly verdict: "passed" | "refused" | "undecided";
/** Of the error that the caller would get. */
readonly code: string | null;
readonly reason: string | null
};

export type Configuration = {
/** Increases with every change of the desired state. */
readonly version: number;
readonly sources: readonly ({
readonly file: string;
/** Those that it defines. */
readonly servers: readonly ({
readonly server: string;
readonly line: number
})[]
})[];
/** Servers that were added at run time. */
readonly runTime: readonly (string)[];
/** Of the last reading: what of the files is not in force. */
readonly problems: readonly (ConfigurationProblem)[];
readonly warnings: readonly (ConfigurationProblem)[];
/** What should run and could not be read, of files and store. */
readonly unread: readonly (string)[];
/** The newest first; the last 100 since the start. */
readonly history: readonly (ConfigurationRecord)[]
};

/** As `trunkline check` prints it. */
export type ConfigurationProblem = {
readonly code: string;
/** Absolute path, or a label in angle brackets where there is no file. */
readonly file: string;
/** 0 where it is about the file as a whole. */
readonly line: number;
readonly column: number;
readonly message: string;
/** The line with a marker below it; empty where there is nothing to show. */
readonly frame: string;
readonly fix: string
};

export type ConfigurationRecord = {
readonly at: string;
/** `refused`: what was in force before stays in force. */
readonly result: "started" | "applied" | "refused";
/** In force after it. */
readonly version: number;
readonly servers: readonly ({
readonly server: string;
/** `restarted`: it needs a new connection. `updated`: it takes effect on the connections there are. */
readonly change: "added" | "removed" | "restarted" | "updated";
/** Secrets are masked: one that changes shows the same text twice. */
readonly fields: readonly ({
readonly field: string;
/** JSON text; null where it was absent. */
readonly before: string | null;
/** JSON text; null where it is absent. */
readonly after: string | null
})[]
})[];
/** Names of the other settings that differ. */
readonly settings: readonly (string)[];
readonly problems: readonly (ConfigurationProblem)[]
};

export type ConfigurationPlan = {
/** With errors of the files as a whole, nothing would change. */
readonly problems: readonly (ConfigurationProblem)[];
readonly warnings: readonly (ConfigurationProblem)[];
readonly servers: readonly ({
readonly server: string;
/** `restarted`: it needs a new connection. `updated`: it takes effect on the connections there are. */
readonly change: "added" | "removed" | "restarted" | "updated";
/** Secrets are masked: one that changes shows the same text twice. */
readonly fields: readonly ({
readonly field: string;
/** JSON text; null where it was absent. */
readonly before: string | null;
/** JSON text; null where it is absent. */
readonly after: string | null
})[]
})[];
/** Names of the other settings that differ. */
readonly settings: readonly (string)[];
/** Those of `settings` that are in force after a restart only. */
readonly needRestart: readonly (string)[]
};

export type Reloaded = {
readonly result: "applied" | "unchanged" | "refused";
readonly version: number;
readonly problems: readonly (ConfigurationProblem)[]
};

export type ClientLink = {
readonly id: string;
readonly title: string;
/** There are signs of it on the machine of the gateway. */
readonly installed: boolean;
/** Where it keeps its servers, on the machine of the gateway. */
readonly file: string;
readonly syntax: "json" | "toml" | "yaml";
/** The command by which the client itself takes a server; null where it has none. */
readonly command: string | null;
/** The file as `trunkline link` writes it where there is none; in others it adds the entry. */
readonly content: string;
/** The command that writes it. */
readonly link: string
};

/** A task that a call of a client began, at whichever node. */
export type Task = {
/** Names the task here; its id is known to the caller that started it. */
readonly key: string;
readonly server: string;
readonly principal: string;
/** Name and version of the client, as it said. */
readonly client: string | null;
/** Label of the session whose connection it runs over; null without one. */
readonly session: string | null;
/** Of the server; null where the gateway made the task. */
readonly era: "stateful" | "stateless" | null;
readonly status: "working" | "input_required" | "completed" | "failed" | "cancelled";
/** What the server said of it last. */
readonly message: string | null;
readonly startedAt: string;
readonly expiresAt: string;
readonly ttlMs: number | null
};

/** A fault of a definition, as `trunkline check` prints it; the file is the body. */
export type DefinitionProblem = {
readonly code: string;
readonly line: number;
readonly column: number;
readonly message: string;
readonly frame: string;
readonly fix: string
};

export type Error = {
readonly error: {
readonly code: string;
readonly message: string;
readonly problems?: readonly (DefinitionProblem)[]
}
};

/** What runs here: version, addresses, configuration files, readiness. */
export function getGateway(options: CallOptions = {}): Promise<Gateway> {
  return request('GET', `api/v1/gateway`, undefined, options);
}

/** What runs at each node: version, addresses, configuration files, readiness. */
export function listGateways(options: CallOptions = {}): Promise<{
readonly gateways: readonly (GatewayOfNode)[];
/** The nodes that did not answer, or were lost within the hour: nothing of theirs is here. */
readonly silent?: readonly (string)[]
}> {
  return request('GET', `api/v1/gateways`, undefined, options);
}

/** Drains this gateway: it accepts nothing new, finishes its calls, and exits, as SIGTERM does. */
export function stopGateway(input: { readonly now?: number | undefined; readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
/** Id of the process. */
readonly stopping: number
}> {
  return request('POST', `api/v1/gateway/stop${query({ now: input.now, node: input.node })}`, undefined, options);
}

/** All servers with their status. */
export function listServers(options: CallOptions = {}): Promise<{
readonly servers: readonly (Server)[];
/** Position in the event stream: later events are not in this list. */
readonly cursor: string
}> {
  return request('GET', `api/v1/servers`, undefined, options);
}

/** Adds a server. The body is its definition as in a file, with its `name`. It outlives restarts, unless it is for a session or a while. */
export function addServer(input: { readonly ttlMs?: number | undefined; readonly session?: string | undefined; readonly folder?: string | undefined; readonly node?: string | undefined; readonly body: Readonly<Record<string, unknown>> }, options: CallOptions = {}): Promise<Server> {
  return request('POST', `api/v1/servers${query({ ttlMs: input.ttlMs, session: input.session, folder: input.folder, node: input.node })}`, input.body, options);
}

/** The status of each server at each node that has it. */
export function listInstances(input: { readonly server?: string | undefined; readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly instances: readonly (Instance)[];
/** The nodes that did not answer, or were lost within the hour: nothing of theirs is here. */
readonly silent?: readonly (string)[]
}> {
  return request('GET', `api/v1/instances${query({ server: input.server, node: input.node })}`, undefined, options);
}

/** One server with its status. */
export function getServer(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Server> {
  return request('GET', `api/v1/servers/${encodeURIComponent(input.name)}${query({ node: input.node })}`, undefined, options);
}

/** Replaces the definition of a server that was added at run time. What the change does not concern goes on. */
export function changeServer(input: { readonly name: string; readonly revision?: number | undefined; readonly folder?: string | undefined; readonly node?: string | undefined; readonly body: Readonly<Record<string, unknown>> }, options: CallOptions = {}): Promise<Server> {
  return request('PUT', `api/v1/servers/${encodeURIComponent(input.name)}${query({ revision: input.revision, folder: input.folder, node: input.node })}`, input.body, options);
}

/** Removes a server that was added at run time. What is in flight may finish; then its processes end. */
export function removeServer(input: { readonly name: string; readonly revision?: number | undefined; readonly node?: string | undefined }, options: CallOptions = {}): Promise<{
readonly removed: boolean
}> {
  return request('DELETE', `api/v1/servers/${encodeURIComponent(input.name)}${query({ revision: input.revision, node: input.node })}`, undefined, options);
}

/** How the server is defined: each value with the line that has it, and the defaults. */
export function getServerConfiguration(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<{
/** Those of the definition, then defaults. Empty for a server of the program. */
readonly values: readonly (WrittenValue)[]
}> {
  return request('GET', `api/v1/servers/${encodeURIComponent(input.name)}/configuration${query({ node: input.node })}`, undefined, options);
}

/** Stops and starts the server, at every node that runs it; answers when it is up again or has failed. */
export function restartServer(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Server> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/restart${query({ node: input.node })}`, undefined, options);
}

/** Calls a tool of the server as the operator. The body is the tool's arguments, one JSON object. */
export function callTool(input: { readonly name: string; readonly tool?: string | undefined; readonly timeoutMs?: number | undefined; readonly node?: string | undefined; readonly body: Readonly<Record<string, unknown>> }, options: CallOptions = {}): Promise<Outcome> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/call${query({ tool: input.tool, timeoutMs: input.timeoutMs, node: input.node })}`, input.body, options);
}

/** The same as an event stream: what the server says of its progress, and at last the outcome. */
export function streamCall(input: { readonly name: string; readonly tool?: string | undefined; readonly timeoutMs?: number | undefined; readonly node?: string | undefined; readonly body: Readonly<Record<string, unknown>> }, options: StreamOptions<{
/** Params of a progress notification, as the server wrote them. */
readonly progress: Readonly<Record<string, unknown>>
} | Outcome>): Promise<void> {
  return stream('POST', `api/v1/servers/${encodeURIComponent(input.name)}/call/stream${query({ tool: input.tool, timeoutMs: input.timeoutMs, node: input.node })}`, input.body, options);
}

/** Events of servers, in order: states with their reasons, health, definitions. */
export function streamEvents(input: { readonly server?: string | undefined; readonly after?: string | undefined; readonly node?: string | undefined } = {}, options: StreamOptions<Event>): Promise<void> {
  return stream('GET', `api/v1/events${query({ server: input.server, after: input.after, node: input.node })}`, undefined, options);
}

/** The last of what servers wrote to their standard error and of what the gateway logged of them, of all nodes. */
export function getLogs(input: { readonly server?: string | undefined; readonly lines?: number | undefined; readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly entries: readonly (LogLine)[];
readonly cursor: string;
/** The nodes that did not answer, or were lost within the hour: nothing of theirs is here. */
readonly silent?: readonly (string)[]
}> {
  return request('GET', `api/v1/logs${query({ server: input.server, lines: input.lines, node: input.node })}`, undefined, options);
}

/** The last log entries of each node, then new ones as they come; through restarts of the servers. */
export function streamLogs(input: { readonly server?: string | undefined; readonly lines?: number | undefined; readonly after?: string | undefined; readonly node?: string | undefined } = {}, options: StreamOptions<LogLine | Gap>): Promise<void> {
  return stream('GET', `api/v1/logs/stream${query({ server: input.server, lines: input.lines, after: input.after, node: input.node })}`, undefined, options);
}

/** The open sessions of clients; in a large cluster those of this node and those that were used last. */
export function listSessions(options: CallOptions = {}): Promise<{
readonly sessions: readonly (Session)[];
/** Number of open sessions; up to 30 s old. */
readonly total: number
}> {
  return request('GET', `api/v1/sessions`, undefined, options);
}

/** Ends the session with this label, with everything that was only its own. */
export function endSession(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<{
readonly ended: boolean
}> {
  return request('DELETE', `api/v1/sessions/${encodeURIComponent(input.name)}${query({ node: input.node })}`, undefined, options);
}

/** The last requests of clients, oldest first, of all nodes. A node keeps 10,000. */
export function listCalls(input: { readonly filter?: string | undefined; readonly limit?: number | undefined; readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly calls: readonly (Call)[];
/** The nodes that did not answer, or were lost within the hour: nothing of theirs is here. */
readonly silent?: readonly (string)[]
}> {
  return request('GET', `api/v1/calls${query({ filter: input.filter, limit: input.limit, node: input.node })}`, undefined, options);
}

/** One request of a client, by its id. */
export function getCall(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Call> {
  return request('GET', `api/v1/calls/${encodeURIComponent(input.name)}${query({ node: input.node })}`, undefined, options);
}

/** The calls of clients in each of the last 300 seconds, of all nodes. */
export function listRates(options: CallOptions = {}): Promise<{
readonly nodes: readonly ({
/** null for a lone gateway. */
readonly node: string | null;
/** Oldest first. One in which the node stood still is missing. */
readonly seconds: readonly (CallSecond)[]
})[];
/** The nodes that did not answer, or were lost within the hour: nothing of theirs is here. */
readonly silent?: readonly (string)[]
}> {
  return request('GET', `api/v1/rates`, undefined, options);
}

/** What happens at all nodes, for those who watch: events as of `streamEvents`, calls in batches, each second the rates of each server, and the log where it is asked for. It begins with `hello`; what came before is in the lists. */
export function streamLive(input: { readonly filter?: string | undefined; readonly logs?: string | undefined; readonly node?: string | undefined } = {}, options: StreamOptions<Live>): Promise<void> {
  return stream('GET', `api/v1/live${query({ filter: input.filter, logs: input.logs, node: input.node })}`, undefined, options);
}

/** The tools of all servers, or of one, under their exposed and their own names; and those not offered. */
export function listTools(input: { readonly server?: string | undefined; readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly tools: readonly (Tool)[];
readonly notOffered: readonly (HiddenTool)[]
}> {
  return request('GET', `api/v1/tools${query({ server: input.server, node: input.node })}`, undefined, options);
}

/** The tools as MCP clients show them to their models: names with their prefixes, limits, and costs. */
export function listClientTools(input: { readonly client?: string | undefined; readonly gateway?: string | undefined; readonly tool?: string | undefined; readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly clients: readonly (ClientView)[]
}> {
  return request('GET', `api/v1/tools/clients${query({ client: input.client, gateway: input.gateway, tool: input.tool, node: input.node })}`, undefined, options);
}

/** Calls a method as a client of any revision, and streams what goes over its wire; ending the stream cancels the call. */
export function play(input: { readonly node?: string | undefined; readonly body: Play }, options: StreamOptions<{
/** Milliseconds since the call began. */
readonly ms: number;
/** Names the call for `answerPlay`. */
readonly run: string
} | {
/** Milliseconds since the call began. */
readonly ms: number;
/** A message of the protocol, as it was on the wire. */
readonly sent: Readonly<Record<string, unknown>>
} | {
/** Milliseconds since the call began. */
readonly ms: number;
/** A message of the protocol, as it was on the wire. */
readonly received: Readonly<Record<string, unknown>>
} | {
/** Milliseconds since the call began. */
readonly ms: number;
readonly question: PlayQuestion
} | {
/** Milliseconds since the call began. */
readonly ms: number;
readonly done: PlayEnd
}>): Promise<void> {
  return stream('POST', `api/v1/playground${query({ node: input.node })}`, input.body, options);
}

/** Answers a question of a call that `play` has begun, or cancels the call. */
export function answerPlay(input: { readonly name: string; readonly node?: string | undefined; readonly body: PlayAnswer }, options: CallOptions = {}): Promise<{
readonly taken: boolean
}> {
  return request('POST', `api/v1/playground/${encodeURIComponent(input.name)}${query({ node: input.node })}`, input.body, options);
}

/** Gives the document of an MCP App an address with an origin of its own, for a frame of the console. */
export function openApp(input: { readonly node?: string | undefined; readonly body: AppDocument }, options: CallOptions = {}): Promise<{
/** Relative to the console; serves the document once. */
readonly path: string
}> {
  return request('POST', `api/v1/apps${query({ node: input.node })}`, input.body, options);
}

/** The recordings, the oldest first. */
export function listRecordings(input: { readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly recordings: readonly (Recording)[];
/** The nodes that did not answer, or were lost within the hour: nothing of theirs is here. */
readonly silent?: readonly (string)[]
}> {
  return request('GET', `api/v1/recordings${query({ node: input.node })}`, undefined, options);
}

/** Records both wires of a session that is open, of the next session of a client or principal, or of one server. */
export function startRecording(input: { readonly node?: string | undefined; readonly body: {
/** Label of a session that is open. */
readonly session?: string | null;
/** The next session of a client that gives this name of itself. */
readonly client?: string | null;
/** The next session of this principal, such as `agent:ada`. */
readonly principal?: string | null;
/** Alone: all that passes between the gateway and this server, and the sessions at its own endpoint. Otherwise only this server of the session. */
readonly server?: string | null;
/** It stops there. 10 000 by default, at most 100 000. */
readonly maxEntries?: number;
/** It stops there. 8 MiB by default, at most 16 MiB. */
readonly maxBytes?: number
} }, options: CallOptions = {}): Promise<Recording> {
  return request('POST', `api/v1/recordings${query({ node: input.node })}`, input.body, options);
}

/** A recording with its text, in JSON Lines. */
export function getRecording(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<{
readonly recording: Recording;
/** One JSON text a line. */
readonly jsonl: string;
/** The nodes that did not answer, or were lost within the hour: nothing of theirs is here. */
readonly silent?: readonly (string)[]
}> {
  return request('GET', `api/v1/recordings/${encodeURIComponent(input.name)}${query({ node: input.node })}`, undefined, options);
}

/** Removes a recording and its file. */
export function deleteRecording(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<{
readonly removed: boolean
}> {
  return request('DELETE', `api/v1/recordings/${encodeURIComponent(input.name)}${query({ node: input.node })}`, undefined, options);
}

/** Ends a recording and keeps it. */
export function stopRecording(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Recording> {
  return request('POST', `api/v1/recordings/${encodeURIComponent(input.name)}/stop${query({ node: input.node })}`, undefined, options);
}

/** Sends the recorded requests to a server again, one after the other and as the operator, and compares the answers. Tools run. */
export function replayRecording(input: { readonly node?: string | undefined; readonly body: {
/** Id of a recording that is kept here. */
readonly recording?: string | null;
/** The text of one, in its place. */
readonly jsonl?: string | null;
/** The server to replay it against. */
readonly server: string;
/** The recorded server, where the recording is of a client of several. */
readonly of?: string | null;
/** Paths whose differences do not count, such as `$.result.content[*].text`. */
readonly ignore?: readonly (string)[]
} }, options: CallOptions = {}): Promise<Replay> {
  return request('POST', `api/v1/replays${query({ node: input.node })}`, input.body, options);
}

/** Writes a test for `node --test` that sends the recorded requests to the endpoint of a server, with the key in `TRUNKLINE_KEY` if it is set, and asserts the answers. */
export function writeReplayTest(input: { readonly node?: string | undefined; readonly body: {
/** Id of a recording that is kept here. */
readonly recording?: string | null;
/** The text of one, in its place. */
readonly jsonl?: string | null;
/** The server to replay it against. */
readonly server: string;
/** The recorded server, where the recording is of a client of several. */
readonly of?: string | null;
/** Paths whose differences do not count, such as `$.result.content[*].text`. */
readonly ignore?: readonly (string)[]
} }, options: CallOptions = {}): Promise<ReplayTest> {
  return request('POST', `api/v1/replay-tests${query({ node: input.node })}`, input.body, options);
}

/** Opens a session of the console: sets its cookie, and answers with what requests send as `Trunkline-Csrf`. */
export function logIn(input: { readonly body: {
/** Of a link to the console; good once, within ten minutes. */
readonly code?: string;
/** The control token. */
readonly token?: string
} }, options: CallOptions = {}): Promise<{
readonly csrf: string
}> {
  return request('POST', `api/v1/login`, input.body, options);
}

/** Ends the session of the console that asks. */
export function logOut(options: CallOptions = {}): Promise<{
readonly ended: boolean
}> {
  return request('DELETE', `api/v1/login`, undefined, options);
}

/** A link to the console that logs one browser in, within ten minutes. */
export function createConsoleLink(options: CallOptions = {}): Promise<{
readonly url: string
}> {
  return request('POST', `api/v1/console-links`, undefined, options);
}

/** The nodes of the cluster, and servers that they define differently. Empty for a lone gateway. */
export function listNodes(input: { readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly nodes: readonly (Node)[];
readonly conflicts: readonly (DefinitionConflict)[];
/** What the node that answers owns. */
readonly owned: readonly (Owned)[];
/** What the nodes share, as the node that answers sees it. */
readonly shared: readonly (SharedPart)[]
}> {
  return request('GET', `api/v1/nodes${query({ node: input.node })}`, undefined, options);
}

/** Drains a node: it accepts nothing new, finishes its work, hands over what it owns, and exits, as SIGTERM does. */
export function drainNode(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<{
readonly draining: string
}> {
  return request('POST', `api/v1/nodes/${encodeURIComponent(input.name)}/drain${query({ node: input.node })}`, undefined, options);
}

/** The credentials that the gateway holds for servers, and what state they are in. */
export function listCredentials(options: CallOptions = {}): Promise<{
readonly credentials: readonly (Credential)[]
}> {
  return request('GET', `api/v1/credentials`, undefined, options);
}

/** Begins a login at the server; a browser has to open the URL of the answer within ten minutes. It comes back to `redirectUri`: without one to the gateway itself (`listen.publicUrl`), with null to none, for a login with a user code. */
export function beginLogin(input: { readonly name: string; readonly node?: string | undefined; readonly body: {
readonly redirectUri?: string | null;
/** Whose credential: `agent:<name>`, `anonymous`; null for the shared one, or the operator's. */
readonly principal?: string | null
} }, options: CallOptions = {}): Promise<StartedLogin> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/login${query({ node: input.node })}`, input.body, options);
}

/** How the last sign-in at the server went, step by step: documents, registration, token answer. No secrets. */
export function getSignIn(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<SignIn> {
  return request('GET', `api/v1/servers/${encodeURIComponent(input.name)}/login${query({ node: input.node })}`, undefined, options);
}

/** Forgets the credential on all nodes, and revokes it at the authorization server where that is possible. */
export function revokeCredential(input: { readonly name: string; readonly principal?: string | undefined; readonly node?: string | undefined }, options: CallOptions = {}): Promise<{
readonly removed: boolean
}> {
  return request('DELETE', `api/v1/servers/${encodeURIComponent(input.name)}/login${query({ principal: input.principal, node: input.node })}`, undefined, options);
}

/** Asks what a sign-in at the server would ask before a browser opens, step by step, up to the one that fails. Registers no client. */
export function checkSignIn(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<SignInCheck> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/login/check${query({ node: input.node })}`, undefined, options);
}

/** Ends a login with the address that the browser was sent back to. */
export function finishLogin(input: { readonly node?: string | undefined; readonly body: {
readonly url: string
} }, options: CallOptions = {}): Promise<Credential> {
  return request('POST', `api/v1/login-redirects${query({ node: input.node })}`, input.body, options);
}

/** Waits for the end of the login of this id: its credential, or null after a minute in which it has not ended. */
export function awaitLogin(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Credential | null> {
  return request('GET', `api/v1/logins/${encodeURIComponent(input.name)}${query({ node: input.node })}`, undefined, options);
}

/** The names of the stored secrets, and when each was changed. */
export function listSecrets(options: CallOptions = {}): Promise<{
readonly secrets: readonly (StoredSecret)[]
}> {
  return request('GET', `api/v1/secrets`, undefined, options);
}

/** Sets or changes a secret. Servers whose definitions refer to it use the new value when this answers. */
export function putSecret(input: { readonly name: string; readonly body: {
/** At most 64 KiB. */
readonly value: string
} }, options: CallOptions = {}): Promise<StoredSecret> {
  return request('PUT', `api/v1/secrets/${encodeURIComponent(input.name)}`, input.body, options);
}

/** Removes a secret. Servers whose definitions refer to it are misconfigured then, and do not use it any more. */
export function deleteSecret(input: { readonly name: string }, options: CallOptions = {}): Promise<{
readonly removed: boolean
}> {
  return request('DELETE', `api/v1/secrets/${encodeURIComponent(input.name)}`, undefined, options);
}

/** Makes a new key, seals all credentials and secrets with it, and drops the one before. */
export function rotateSecretKey(options: CallOptions = {}): Promise<{
/** How many records the new key has sealed. */
readonly sealed: number
}> {
  return request('POST', `api/v1/secret-key`, undefined, options);
}

/** How every server differs from what was approved of it, with all that waits for a decision. */
export function listDrift(options: CallOptions = {}): Promise<{
readonly servers: readonly (DriftReport)[]
}> {
  return request('GET', `api/v1/drift`, undefined, options);
}

/** The same of one server. */
export function getDrift(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<DriftReport> {
  return request('GET', `api/v1/servers/${encodeURIComponent(input.name)}/drift${query({ node: input.node })}`, undefined, options);
}

/** Approves definitions as they were shown: `{"definitions":[{"list","key","digest"}]}`, all of them or none. A digest of null approves that it is gone. */
export function approveDefinitions(input: { readonly name: string; readonly node?: string | undefined; readonly body: {
readonly definitions: readonly ({
readonly list: "tools" | "prompts" | "resourceTemplates" | "instructions";
readonly key: string;
readonly digest: string | null
})[]
} }, options: CallOptions = {}): Promise<DriftReport> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/drift/approve${query({ node: input.node })}`, input.body, options);
}

/** Blocks names: `{"definitions":[{"list","key"}]}`. Nothing is offered under them and calls are refused, whatever the server says, until one is approved. */
export function blockDefinitions(input: { readonly name: string; readonly node?: string | undefined; readonly body: {
readonly definitions: readonly ({
readonly list: "tools" | "prompts" | "resourceTemplates" | "instructions";
readonly key: string
})[]
} }, options: CallOptions = {}): Promise<DriftReport> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/drift/block${query({ node: input.node })}`, input.body, options);
}

/** What was seen of the server and decided about it, the newest first. */
export function getDriftHistory(input: { readonly name: string; readonly limit?: number | undefined; readonly after?: string | undefined; readonly node?: string | undefined }, options: CallOptions = {}): Promise<DriftHistory> {
  return request('GET', `api/v1/servers/${encodeURIComponent(input.name)}/drift/history${query({ limit: input.limit, after: input.after, node: input.node })}`, undefined, options);
}

/** What each caller may use: every tool of every server, as the policies of calls decide it now. */
export function getAccess(options: CallOptions = {}): Promise<Access> {
  return request('GET', `api/v1/access`, undefined, options);
}

/** What would become of a call of one caller, policy by policy. Nothing is sent and nothing is counted. */
export function explainCall(input: { readonly name: string; readonly tool?: string | undefined; readonly principal?: string | undefined; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Explanation> {
  return request('GET', `api/v1/servers/${encodeURIComponent(input.name)}/access${query({ tool: input.tool, principal: input.principal, node: input.node })}`, undefined, options);
}

/** Where the configuration comes from, what is wrong with it, and how it has changed since the start. */
export function getConfiguration(input: { readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<Configuration> {
  return request('GET', `api/v1/configuration${query({ node: input.node })}`, undefined, options);
}

/** Reads the files and returns what they would change. Changes nothing. */
export function planConfiguration(input: { readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<ConfigurationPlan> {
  return request('GET', `api/v1/configuration/plan${query({ node: input.node })}`, undefined, options);
}

/** Reads the files now and applies what is valid, as SIGHUP does. */
export function reloadConfiguration(input: { readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<Reloaded> {
  return request('POST', `api/v1/configuration/reload${query({ node: input.node })}`, undefined, options);
}

/** How each MCP client is connected to this gateway: its command, or what its file has to hold. No keys. */
export function listClients(input: { readonly agent?: string | undefined; readonly node?: string | undefined } = {}, options: CallOptions = {}): Promise<{
readonly url: string;
/** The agent as which clients call; null where they need no key. */
readonly key: {
readonly agent: string;
/** In place of the key in files. */
readonly placeholder: string;
/** What a shell puts in its place. */
readonly shell: string;
/** The command that prints the key. */
readonly show: string
} | null;
readonly agents: readonly (string)[];
readonly clients: readonly (ClientLink)[]
}> {
  return request('GET', `api/v1/clients${query({ agent: input.agent, node: input.node })}`, undefined, options);
}

/** The tasks that calls of clients have begun, of all nodes, until they expire. */
export function listTasks(options: CallOptions = {}): Promise<{
readonly tasks: readonly (Task)[]
}> {
  return request('GET', `api/v1/tasks`, undefined, options);
}

/** Cancels a task at its server. */
export function cancelTask(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Task> {
  return request('POST', `api/v1/tasks/${encodeURIComponent(input.name)}/cancel${query({ node: input.node })}`, undefined, options);
}

/** Ends the server and keeps it so, over restarts, until it is resumed. Servers of files too. */
export function suspendServer(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Server> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/suspend${query({ node: input.node })}`, undefined, options);
}

/** Lets a suspended server run again. */
export function resumeServer(input: { readonly name: string; readonly node?: string | undefined }, options: CallOptions = {}): Promise<Server> {
  return request('POST', `api/v1/servers/${encodeURIComponent(input.name)}/resume${query({ node: input.node })}`, undefined, options);
}

/** The definitions that a command line, an address or the text of a client’s file means, checked as when this caller adds them. Adds nothing. */
export function readDefinitions(input: { readonly body: {
/** An address, or a command with its arguments, as in a shell. */
readonly command: string;
/** Of the server; by default one that follows from the command. */
readonly name?: string | null
} | {
/** The text of any client’s file or of one of Trunkline, or a part of it. */
readonly document: string;
/** Of a server that has none in the text. */
readonly name?: string | null;
/** Of inputs, by their ids. */
readonly values?: Readonly<Record<string, string>>
} }, options: CallOptions = {}): Promise<{
readonly servers: readonly ({
readonly name: string;
/** For `POST /api/v1/servers`. */
readonly definition: Readonly<Record<string, unknown>>;
/** Values by the names that the definition refers to: to be set (`PUT /api/v1/secrets/{name}`) before it is added. */
readonly secrets: Readonly<Record<string, string>>;
/** There is such a server already, the same in everything. */
readonly there: boolean;
/** Why the name cannot be had; null where it can, and for a server that is there. */
readonly taken: string | null
})[];
/** Inputs without a value. The servers that need one are left out. */
readonly lacking: readonly ({
readonly id: string;
readonly description: string;
readonly secret: boolean
})[];
/** What was left out or is named otherwise here. */
readonly warnings: readonly (DefinitionProblem)[]
}> {
  return request('POST', `api/v1/definitions`, input.body, options);
}

/** Servers of the MCP registry whose name or description has the words. */
export function searchRegistry(input: { readonly search?: string | undefined } = {}, options: CallOptions = {}): Promise<{
/** Its address, or its file or folder. */
readonly registry: string;
readonly servers: readonly ({
/** As the registry has it, such as io.github.owner/server. */
readonly name: string;
readonly version: string;
readonly description: string;
/** `active` or `deprecated`. */
readonly status: string;
/** How it can be run: `remote`, `sse`, `npm`, `pypi`, `oci`, `nuget`, `mcpb`. Empty: not here. */
readonly ways: readonly (string)[]
})[]
}> {
  return request('GET', `api/v1/registry/servers${query({ search: input.search })}`, undefined, options);
}

/** The definition of a server of the registry with these values of its inputs. Adds nothing and keeps nothing. */
export function prepareServer(input: { readonly body: {
/** The name in the registry; `@version` after it for another than the latest. */
readonly server: string;
/** One of `ways`; the first by default. */
readonly via?: string;
/** Of the server here; what follows the `/` by default. */
readonly name?: string;
/** Of inputs, by their names. Secrets are not kept by this operation. */
readonly values?: Readonly<Record<string, string>>
} }, options: CallOptions = {}): Promise<{
/** As the registry has it, such as io.github.owner/server. */
readonly name: string;
readonly version: string;
readonly description: string;
/** `active` or `deprecated`. */
readonly status: string;
/** How it can be run: `remote`, `sse`, `npm`, `pypi`, `oci`, `nuget`, `mcpb`. Empty: not here. */
readonly ways: readonly (string)[];
readonly via: string;
readonly inputs: readonly ({
readonly name: string;
readonly description: string;
readonly required: boolean;
readonly secret: boolean;
readonly choices: readonly (string)[] | null;
readonly default: string | null
})[];
/** Required inputs without a value. */
readonly lacking: readonly (string)[];
/** For which inputs which secrets are to be set (`PUT /api/v1/secrets/{name}`) before the server is added. */
readonly secrets: Readonly<Record<string, string>>;
/** For `POST /api/v1/servers`; null while inputs lack. */
readonly definition: Readonly<Record<string, unknown>> | null
}> {
  return request('POST', `api/v1/registry/definition`, input.body, options);
}
