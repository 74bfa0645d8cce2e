import type { NatsCredentials, NatsTls } from '../../model/desired-state.ts';

/** Where the servers of NATS are, and how this node shows who it is. */
export interface NatsOptions {
  /** `nats://host:4222`, `tls://…`; further servers of the same cluster, of which any will do. Without credentials. */
  readonly servers: readonly string[];
  /** Shown in NATS' own lists of connections. */
  readonly name: string;
  readonly credentials: NatsCredentials | null;
  readonly tls: NatsTls | null;
}
