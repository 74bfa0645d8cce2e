import type { ClusterSettings } from './cluster-settings.ts';
import type { PoolSettings } from './pool-settings.ts';
import type { Secret } from './secret.ts';
import type { Server } from './server.ts';

/** A caller with a key of its own (S2.28). */
export interface Agent {
  readonly name: string;
  readonly key: Secret;
  /** null: all servers. */
  readonly servers: ReadonlySet<string> | null;
}

export interface ListenSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** Addresses or CIDR blocks whose X-Forwarded-* are believed. */
  readonly trustedProxies: readonly string[];
  /** Host names accepted beside loopback and the bound address. */
  readonly allowedHosts: readonly string[];
  /** Origins accepted beside loopback; CORS headers are given to these only. */
  readonly allowedOrigins: readonly string[];
  /** Accept a bind beyond loopback without authentication and TLS. Only from the flag or `listen.insecure`. */
  readonly insecure: boolean;
  readonly maxBodyBytes: number;
  readonly maxConnections: number;
}

export interface SessionSettings {
  /** A client session without requests or streams for this long is ended. Default 24 h (docs/decisions/004). */
  readonly idleMs: number;
  readonly max: number;
  /** Sessions one principal may have open. */
  readonly maxPerPrincipal: number;
}

/** Everything that should be, as read from the files. Immutable; a reload makes a new one. */
export interface DesiredState {
  readonly servers: ReadonlyMap<string, Server>;
  readonly agents: ReadonlyMap<string, Agent>;
  /** What a caller without a known key may do when agents are configured: nothing (401), or everything (the seeds' way). */
  readonly unknownCallers: 'refuse' | 'allow';
  readonly listen: ListenSettings;
  readonly control: { readonly host: string; readonly port: number };
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
  /** null: a lone node. */
  readonly cluster: ClusterSettings | null;
  readonly dataDir: string | null;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  /** Files this state was read from, absolute. */
  readonly files: readonly string[];
}
