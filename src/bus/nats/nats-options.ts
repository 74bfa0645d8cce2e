import type { Secret } from '../../model/secret.ts';

/** Where the servers of NATS are, and how this node shows who it is. */
export interface NatsOptions {
  /** `nats://host:4222`, `tls://…`; further servers of the same cluster, of which any will do. Without credentials. */
  readonly servers: readonly string[];
  /** Shown in NATS' own lists of connections. */
  readonly name: string;
  readonly credentials: NatsCredentials | null;
  readonly tls: NatsTls | null;
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
