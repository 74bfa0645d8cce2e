import { isLoopbackHost } from './host-address.ts';
import type { Secret } from './secret.ts';
import type { Server } from './server.ts';

export interface Agent {
  readonly name: string;
  readonly key: Secret;
  /** The environment variable that holds the key, where the file names one. */
  readonly variable?: string | undefined;
  readonly servers: ReadonlySet<string> | null;
}

export interface ListenSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** Where browsers and other machines reach the MCP listener, without a slash at the end; null where that was not said. */
  readonly publicUrl: string | null;
  /** Addresses or CIDR blocks whose X-Forwarded-* are believed. */
  readonly trustedProxies: readonly string[];
  /** Host names accepted beside loopback and the bound address. */
  readonly allowedHosts: readonly string[];
  /** Origins accepted beside loopback; CORS headers are given to these only. */
  readonly allowedOrigins: readonly string[];
  /** The list of servers at `/v0.1/servers` needs no key. */
  readonly anonymousRegistry: boolean;
  /** Accept a bind beyond loopback without authentication and TLS. Only from the flag or `listen.insecure`. */
  readonly insecure: boolean;
  readonly maxBodyBytes: number;
  readonly maxConnections: number;
}

export interface SessionSettings {
  /** A client session without requests or streams for this long is ended. Default 24 h (docs/decisions/004). */
  readonly idleMs: number;
  readonly max: number;
  readonly maxPerPrincipal: number;
}

/** Everything that should be, as read from the files. Immutable; a reload makes a new one. */
export interface DesiredState {
  readonly servers: ReadonlyMap<string, Server>;
  readonly agents: ReadonlyMap<string, Agent>;
  /** What a caller without a known key may do when agents are configured: nothing (401), or everything (the seeds' way). */
  readonly unknownCallers: 'refuse' | 'allow';
  readonly listen: ListenSettings;
  readonly control: {
    readonly host: string;
    readonly port: number;
    /** `clientCaFile`: a client with a certificate of it needs no token; null: none needs one. */
    readonly tls: { readonly certFile: string; readonly keyFile: string; readonly clientCaFile: string | null } | null;
    /** Beside the token in the data folder. */
    readonly token: Secret | null;
    readonly allowedHosts: readonly string[];
    /** Where a proxy offers the listener. */
    readonly publicUrl: string | null;
  };
  /** Reads `/metrics`, beside the control token. */
  readonly metricsToken: Secret | null;
  /** Of the listener for `/metrics` alone. */
  readonly metricsAddress: { readonly host: string; readonly port: number } | null;
  readonly telemetry: TelemetrySettings;
  /** Programs that a server added at run time may run without the right `servers:exec` (decision 019). */
  readonly allowedCommands: readonly string[];
  readonly sessions: SessionSettings;
  /** How long a list waits for servers that were never listed before. Default 2 000. */
  readonly firstListWaitMs: number;
  /** Upper bound of any call, whatever progress says. Default 600 000; a longer server or tool timeout raises it. */
  readonly maxTimeoutMs: number;
  /** Child processes on this node at once. Default 128. */
  readonly maxProcesses: number;
  readonly pool: PoolSettings;
  readonly cluster: ClusterSettings | null;
  readonly dataDir: string | null;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  /** Files this state was read from, absolute. */
  readonly files: readonly string[];
}

/** What is sent to OpenTelemetry receivers; null for nothing. */
export interface TelemetrySettings {
  /** `sample`: the share of the traces that begin here, 0 to 1. */
  readonly traces: (OtlpReceiver & { readonly sample: number }) | null;
  readonly metrics: (OtlpReceiver & { readonly intervalMs: number }) | null;
}

export interface OtlpReceiver {
  /** With its path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, Secret>>;
}

/** How this node is one of several (docs/cluster.md). */
export interface ClusterSettings {
  /** Servers of NATS, `nats://host:port` or `tls://host:port`, without credentials. */
  readonly servers: readonly string[];
  /** In the subjects and buckets of NATS; null: the plain ones. */
  readonly name: string | null;
  /** The operator's name for this node; null: the name of the machine. */
  readonly node: string | null;
  /** The cluster's secret, then the one before it while it is still believed. At least 32 bytes each. */
  readonly secrets: readonly Secret[];
  readonly credentials: NatsCredentials | null;
  readonly tls: NatsTls | null;
  /** What becomes of what only this node may own, while NATS cannot be reached: refused, or served at the risk of two owners. */
  readonly onBusLoss: 'fence' | 'serve';
  /** Which process of a shared local server serves a session: that of the node that has the request, or one for all of them. */
  readonly sharedProcesses: 'node' | 'session';
  /** In the memory of NATS, for all sessions of the cluster. */
  readonly streamCopiesBytes: number;
  /** `postgresql://…`, where the nodes keep what is decided at run time; null: they keep it in JetStream. */
  readonly store: Secret | null;
  /** Serve `mcp.{name}.execute` and `mcp.{name}.list-tools` to other programs. */
  readonly publicSubjects: boolean;
  /** The agent that callers on those subjects are who show no key; null: they are refused. */
  readonly publicPrincipal: string | null;
}

/** Exactly one kind. `creds` is the text of a `.creds` file: a JWT with its key's seed. */
export type NatsCredentials =
  | { readonly kind: 'user'; readonly user: string; readonly password: Secret }
  | { readonly kind: 'token'; readonly token: Secret }
  | { readonly kind: 'nkey'; readonly seed: Secret }
  | { readonly kind: 'creds'; readonly creds: Secret };

/** Files in PEM; null: the system's certificate authorities, no certificate of our own. */
export interface NatsTls {
  readonly caFile: string | null;
  readonly certFile: string | null;
  readonly keyFile: string | null;
}

/** When connections of session pools end by themselves (S1.5). Shared by all servers of a node. */
export interface PoolSettings {
  /** A connection of one session or principal that was not used for so long is closed. */
  readonly idleTimeoutMs: number;
  /** At the limit of processes one that was not used for at least so long is ended for another, unless its client is gone. */
  readonly sleepAfterMs: number;
  readonly sweepMs: number;
  readonly maxErrors: number;
}

export const POOL_DEFAULTS: PoolSettings = {
  idleTimeoutMs: 30 * 60_000,
  sleepAfterMs: 0,
  sweepMs: 5 * 60_000,
  maxErrors: 10,
};

/** What a listener has that makes it safe to be reached by other machines. */
interface Exposure {
  /** False where unknown callers get everything, in spite of agents. */
  readonly authenticated: boolean;
  /** By TLS of our own or of a proxy. */
  readonly encrypted: boolean;
}

/** What a listener lacks before other machines, which could run the tools, may reach it; null for nothing. */
export function unsafeExposure(
  listen: DesiredState['listen'],
  unknownCallers: DesiredState['unknownCallers'],
  hasAgents: boolean,
): Exposure | null {
  if (listen.insecure || isLoopbackHost(listen.host)) return null;
  const authenticated = hasAgents && unknownCallers === 'refuse';
  const encrypted = listen.tls !== null || listen.trustedProxies.length > 0;
  return authenticated && encrypted ? null : { authenticated, encrypted };
}
