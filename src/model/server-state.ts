/** States of an upstream (S3.20, S4.5). `suspended` is a desired state. */
export type ServerState =
  | 'unknown'
  | 'starting'
  | 'running'
  | 'connected'
  | 'stopping'
  | 'stopped'
  | 'disconnected'
  | 'degraded'
  | 'failed'
  | 'unreachable'
  | 'auth_required'
  | 'misconfigured'
  /** An exception in the gateway that only this server caused; nothing of it runs until it is restarted. */
  | 'defect'
  | 'suspended';

/** Calls go to it. */
export const UP: ReadonlySet<ServerState> = new Set(['running', 'connected']);

/** It could not be started. */
export const DOWN: ReadonlySet<ServerState> = new Set([
  'failed',
  'unreachable',
  'auth_required',
  'misconfigured',
  'defect',
]);

/** Up, or about to be brought back up: nothing is started by asking such a server. */
export const STARTED: ReadonlySet<ServerState> = new Set(['running', 'connected', 'degraded']);

/** What the operator of a server in `auth_required` does. */
export const LOGIN_ADVICE = 'OAuth is not supported yet; use a static token: headers.Authorization';

export type Health = 'unknown' | 'healthy' | 'unhealthy';

/** One step of a server from a state to another. */
export interface StateChange {
  readonly from: ServerState;
  readonly to: ServerState;
  /** In words; null where it is the usual course of things. */
  readonly reason: string | null;
  /** The class of the failure behind it; null where there is none. */
  readonly failure: string | null;
  /** What the server says of how to get credentials, on the way to `auth_required`; else null. */
  readonly challenge: AuthChallenge | null;
  /** Wall-clock milliseconds. */
  readonly at: number;
}

/** What a server that asks for credentials says of how to get them (RFC 9110 §11.6.1, RFC 9728 §5.1). */
export interface AuthChallenge {
  readonly resourceMetadata: string | null;
  readonly scope: string | null;
  /** `authorization_uri` or `issuer`, where it names one. */
  readonly issuer: string | null;
}

/** The steps of a restart that was asked for (S3.10). */
export type RecoveryStep = 'started' | 'succeeded' | 'failed';

/** The parts of the way to a remote server's answer, in their order. */
export const PHASES = ['dns', 'tcp', 'tls', 'firstByte'] as const;
export type Phase = (typeof PHASES)[number];

/** How long one phase took, over the last times it was gone through. */
export interface PhaseFigures {
  readonly lastMs: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly count: number;
}

/** Where the time of requests to a remote server goes; null for phases that were not gone through. */
export interface RequestPhases extends Readonly<Record<Phase, PhaseFigures | null>> {
  /** The phase that takes longest. */
  readonly slowest: Phase;
  /** In a sentence. */
  readonly summary: string;
}

/** What is observed of a server on this node, for people: status API, start screen, `trunkline status`. No secrets. */
export interface ServerStatus {
  readonly name: string;
  readonly state: ServerState;
  readonly health: Health;
  /** Why it is not healthy, in words, with the remedy where we know one; null when there is nothing to say. */
  readonly reason: string | null;
  /** Set while the state is `auth_required`. */
  readonly authChallenge: AuthChallenge | null;
  readonly transport: 'stdio' | 'docker' | 'http' | 'sse' | 'json' | 'memory';
  readonly endpoint: string | null;
  /** Name or id of the container it is attached to; null elsewhere. */
  readonly containerId: string | null;
  /** The host it runs on, where that is reached through ssh; null elsewhere. */
  readonly sshHost: string | null;
  readonly era: 'stateful' | 'stateless' | null;
  readonly revision: string | null;
  readonly initialized: boolean;
  readonly toolCount: number;
  /** Unprefixed names, sorted. */
  readonly tools: readonly string[];
  readonly promptCount: number;
  readonly resourceCount: number;
  /** How long a start may take. */
  readonly startupTimeoutMs: number;
  /** From start to the first catalogue; null until then. */
  readonly startedInMs: number | null;
  readonly consecutiveFailures: number;
  readonly restarts: number;
  /** Wall-clock milliseconds; null for never. */
  readonly lastAttemptAt: number | null;
  readonly nextRetryAt: number | null;
  readonly lastExit: { readonly code: number | null; readonly signal: string | null } | null;
  /** Redacted tail of the process's standard error; empty where there is none. */
  readonly stderrTail: string;
  /** null when the last start was a good one, or there was none. */
  readonly lastLaunchFailure: LaunchFailure | null;
  readonly connections: readonly ConnectionStatus[];
  /** Where several processes share its calls; else empty. */
  readonly replicas: readonly ReplicaStatus[];
  /** Connections by what they are doing. */
  readonly pool: Readonly<Record<ConnectionStatus['state'], number>>;
  /** How many processes of it run on this node, and how many may; null where none is started here. */
  readonly processes: { readonly running: number; readonly limit: number } | null;
  /** Its last steps, oldest first; each begins where the one before ended. */
  readonly history: readonly StateChange[];
  /** null for servers without a URL, and before the first request. */
  readonly phases: RequestPhases | null;
  readonly definition: DefinitionView;
  /** True when the catalogue shown is a remembered one and the server has not been listed since start. */
  readonly catalogFromStore: boolean;
}

/** A definition as it may be shown: of variables and headers the names alone. */
export interface DefinitionView {
  readonly enabled: boolean;
  readonly start: 'eager' | 'lazy';
  /** null where no process is started. */
  readonly command: string | null;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly description: string | null;
}

/** What can be said of a start that failed (S1.19). No secrets. */
export interface LaunchFailure {
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly error: string;
  /** The most probable reason, with the remedy; null where the error says all there is. */
  readonly likelyCause: string | null;
  /** null where nothing is started here. */
  readonly command: string | null;
  /** With everything masked that may be a secret. */
  readonly arguments: readonly string[];
  /** Names of the declared variables, sorted; never their values. */
  readonly environment: readonly string[];
  /** Names that are to be handed on to the server and are not set, sorted. */
  readonly missingVariables: readonly string[];
  /** Whether the gateway itself runs in a container. */
  readonly inContainer: boolean;
  readonly exit: { readonly code: number | null; readonly signal: string | null } | null;
  /** Redacted tail of what it wrote to standard error in that start. */
  readonly stderrTail: string;
}

/** One of several processes that share the calls of a server. */
export interface ReplicaStatus {
  /** From 1. */
  readonly replica: number;
  readonly era: 'stateful' | 'stateless';
  readonly state: ServerState;
  readonly health: Health;
  /** Why it does not serve, or not well; null when there is nothing to say. */
  readonly reason: string | null;
  readonly pid: number | null;
  readonly inFlight: number;
  /** Sessions and handles that keep to it. */
  readonly bound: number;
  readonly restarts: number;
  readonly consecutiveFailures: number;
  /** Wall-clock milliseconds; null when no attempt is planned. */
  readonly nextRetryAt: number | null;
}

export interface ConnectionStatus {
  /** `server/key`, a slash within a part encoded (S1.2). */
  readonly id: string;
  /** Label of the session key: `shared`, `spare`, `principal …`, `session …` (never the wire session id itself). */
  readonly key: string;
  /** `active`: requests in flight; `idle`: none; `closed`: given up, its process or session about to end. */
  readonly state: 'active' | 'idle' | 'closed';
  readonly pid: number | null;
  readonly inFlight: number;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  readonly requests: number;
  /** Requests that failed: lost, or not answered in time. A server's own error is an answer. */
  readonly errors: number;
  /** Those since the last answered one. */
  readonly consecutiveErrors: number;
  readonly lastError: string | null;
}
