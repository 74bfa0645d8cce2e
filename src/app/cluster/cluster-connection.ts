import type { Bus } from '../../bus/bus.ts';
import type { SharedLog } from '../../bus/shared-log.ts';
import type { SharedState } from '../../bus/shared-state.ts';
import type { Wire } from '../../bus/wire.ts';
import type { ClusterIdentity } from '../../cluster/lease/cluster-identity.ts';

/**
 * How the nodes of a cluster reach each other: the ports that `openNode` takes (S0.12). One for each node, which closes it.
 */
export interface Messenger {
  readonly wire: Wire;
  readonly state: SharedState;
  /** Without it, the sessions of clients end with their node. */
  readonly log?: SharedLog;
  /** Of the cluster; absent and null: it has none. */
  readonly name?: string | null;
  /** The cluster's secret, then those that are still believed while it is being changed; at least 32 bytes each. */
  readonly secrets: readonly string[];
}

/** What joins this gateway to a cluster: how its nodes talk, what they share, and what all of them know. */
export interface ClusterConnection {
  readonly bus: Bus;
  readonly state: SharedState;
  /** Absent where nodes share none: then the sessions of clients end with their node. */
  readonly log?: SharedLog;
  /** Of the cluster; null: it has none. */
  readonly name?: string | null;
  /** The operator's name for this node. */
  readonly node: string;
  /** Default: fence. */
  readonly onBusLoss?: 'fence' | 'serve';
  /** Tells whether the other nodes have the same secret. */
  readonly identity: ClusterIdentity;
  /** Seals what any node may have to open; 32 bytes, from the cluster's secret. */
  readonly key: Buffer;
  /** The same of secrets that are still believed, while the secret is being changed. */
  readonly previousKeys?: readonly Buffer[];
  /** The connection that the bus uses. Absent: there are no public subjects either. */
  readonly wire?: Wire;
  /** Present where programs are served on the public subjects; `principal`: the agent of those who show no key. */
  readonly publicSubjects?: { readonly principal: string | null };
  /** The last of it: nothing of the cluster is used any more. */
  close(): Promise<void>;
}
