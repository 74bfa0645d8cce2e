import type { Secret } from './secret.ts';

/** How this node is one of several (docs/cluster.md). */
export interface ClusterSettings {
  /** Servers of NATS, `nats://host:port` or `tls://host:port`, without credentials. */
  readonly servers: readonly string[];
  /** The operator's name for this node; null: the name of the machine. */
  readonly node: string | null;
  /** The cluster's secret, then the one before it while it is still believed. At least 32 bytes each. */
  readonly secrets: readonly Secret[];
  readonly credentials: NatsCredentials | null;
  readonly tls: NatsTls | null;
  /** What becomes of what only this node may own, while NATS cannot be reached: refused, or served at the risk of two owners. */
  readonly onBusLoss: 'fence' | 'serve';
  /** `postgresql://…`, where the nodes keep what is decided at run time; null: such changes are refused. */
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
