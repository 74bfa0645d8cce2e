import { isLoopbackHost } from './host-address.ts';
import type { Secret } from './secret.ts';
import type { Server } from './server.ts';

export interface Agent {
  readonly name: string;
  readonly key: Secret;
  /** The environment variable that holds the key, if the file names one. */
  readonly variable?: string | undefined;
  readonly servers: ReadonlySet<string> | null;
}

export interface ListenSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** Where browsers and other machines reach the MCP listener, without a trailing slash; null if not configured. */
  readonly publicUrl: string | null;
  /** Addresses or CIDR blocks whose X-Forwarded-* headers the gateway trusts. */
  readonly trustedProxies: readonly string[];
  /** Host names accepted in addition to loopback and the bound address. */
  readonly allowedHosts: readonly string[];
  /** Origins accepted in addition to loopback; only these get CORS headers. */
  readonly allowedOrigins: readonly string[];
  /** The list of servers at `/v0.1/servers` needs no key. */
  readonly anonymousRegistry: boolean;
  /** Accept a bind beyond loopback without authentication and TLS. Set only by the flag or `listen.insecure`. */
  readonly insecure: boolean;
  readonly maxBodyBytes: number;
  readonly maxConnections: number;
}

export interface SessionSettings {
  /** The gateway ends a client session without requests or streams for this long. Default 24 h (docs/decisions/004). */
  readonly idleMs: number;
  readonly max: number;
  readonly maxPerPrincipal: number;
}

/** The desired state as read from the files. Immutable; a reload makes a new one. */
export interface DesiredState {
  readonly servers: ReadonlyMap<string, Server>;
  readonly agents: ReadonlyMap<string, Agent>;
  /** Access of callers without a known key when agents are configured: none (401), or everything (as in the seeds). */
  readonly unknownCallers: 'refuse' | 'allow';
  readonly listen: ListenSettings;
  readonly control: {
    readonly host: string;
    readonly port: number;
    /** `clientCaFile`: clients need a certificate of this CA and no token; null: the listener asks for no certificate. */
    readonly tls: { readonly certFile: string; readonly keyFile: string; readonly clientCaFile: string | null } | null;
    /** Accepted in addition to the token in the data folder. */
    readonly token: Secret | null;
    readonly allowedHosts: readonly string[];
    /** URL of the listener behind a proxy. */
    readonly publicUrl: string | null;
  };
  /** Grants access to `/metrics`, as the control token does. */
  readonly metricsToken: Secret | null;
  /** Address of a listener that serves only `/metrics`. */
  readonly metricsAddress: { readonly host: string; readonly port: number } | null;
  readonly telemetry: TelemetrySettings;
  /** Programs that servers added at run time may run without the right `servers:exec` (decision 019). */
  readonly allowedCommands: readonly string[];
  readonly sessions: SessionSettings;
  /** How long a list waits for servers that were never listed before. Default 2 000. */
  readonly firstListWaitMs: number;
  /** Upper bound of any call, even with progress. Default 600 000; a longer server or tool timeout raises it. */
  readonly maxTimeoutMs: number;
  /** Maximum number of child processes on this node. Default 256. */
  readonly maxProcesses: number;
  readonly pool: PoolSettings;
  readonly cluster: ClusterSettings | null;
  readonly dataDir: string | null;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  /** Absolute paths of the files that this state was read from. */
  readonly files: readonly string[];
}

/** What the gateway exports to OpenTelemetry receivers; null for nothing. */
export interface TelemetrySettings {
  /** `sample`: the share of the traces that begin here, 0 to 1. */
  readonly traces: (OtlpReceiver & { readonly sample: number }) | null;
  readonly metrics: (OtlpReceiver & { readonly intervalMs: number }) | null;
}

export interface OtlpReceiver {
  /** Including its path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, Secret>>;
}

/** Settings of this node as a member of a cluster (docs/cluster.md). */
export interface ClusterSettings {
  /** NATS servers, `nats://host:port` or `tls://host:port`, without credentials. */
  readonly servers: readonly string[];
  /** Part of the NATS subject and bucket names; null: the default names. */
  readonly name: string | null;
  /** The operator's name for this node; null: the host name. */
  readonly node: string | null;
  /** The cluster's secret, then the previous one while nodes still accept it. At least 32 bytes each. */
  readonly secrets: readonly Secret[];
  readonly credentials: NatsCredentials | null;
  readonly tls: NatsTls | null;
  /** While NATS is unreachable: refuse what only one node may own, or serve it and risk two owners. */
  readonly onBusLoss: 'fence' | 'serve';
  /** Which process of a shared local server serves a session: that of the node that has the request, or one for the session. */
  readonly sharedProcesses: 'node' | 'session';
  /** Memory in NATS for the stream copies of all sessions of the cluster. */
  readonly streamCopiesBytes: number;
  /** `postgresql://…`, where the nodes store run-time changes; null: they store them in JetStream. */
  readonly store: Secret | null;
  /** Serve `mcp.{name}.execute` and `mcp.{name}.list-tools` to other programs. */
  readonly publicSubjects: boolean;
  /** The agent whose rights callers without a key have on those subjects; null: the gateway refuses them. */
  readonly publicPrincipal: string | null;
}

/** Exactly one kind. `creds` is the text of a `.creds` file: a JWT with the seed of its key. */
export type NatsCredentials =
  | { readonly kind: 'user'; readonly user: string; readonly password: Secret }
  | { readonly kind: 'token'; readonly token: Secret }
  | { readonly kind: 'nkey'; readonly seed: Secret }
  | { readonly kind: 'creds'; readonly creds: Secret };

/** PEM files; null: the system's certificate authorities, no client certificate. */
export interface NatsTls {
  readonly caFile: string | null;
  readonly certFile: string | null;
  readonly keyFile: string | null;
}

/** When the gateway closes pooled connections (S1.5). Shared by all servers of a node. */
export interface PoolSettings {
  /** The gateway closes a connection of one session or principal that was unused for this long. */
  readonly idleTimeoutMs: number;
  /** At the process limit, a process unused for at least this long may be ended for another; at once if its client is gone. */
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

/** Whether a listener is safe to expose to other machines. */
interface Exposure {
  /** False if unknown callers get everything although agents are configured. */
  readonly authenticated: boolean;
  /** By TLS of the gateway or of a proxy. */
  readonly encrypted: boolean;
}

/** What the listener lacks to be safe for other machines, which could run the tools; null if it lacks nothing. */
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
