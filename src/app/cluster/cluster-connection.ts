import type { SharedLog } from '../../bus/shared-log.ts';
import type { SharedState } from '../../bus/shared-state.ts';
import type { Wire } from '../../bus/wire.ts';
import type { ClusterDeps } from '../../cluster/cluster-deps.ts';
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
export interface ClusterConnection
  extends Pick<ClusterDeps, 'bus' | 'state' | 'log' | 'node' | 'onBusLoss' | 'key' | 'previousKeys'> {
  /** Of the cluster; null: it has none. */
  readonly name?: string | null;
  /** As in the settings; `node` where it is absent. */
  readonly sharedProcesses?: 'node' | 'session';
  /** Tells whether the other nodes have the same secret. */
  readonly identity: ClusterIdentity;
  /** The connection that the bus uses. */
  readonly wire: Wire;
  /** Present where programs are served on the public subjects; `principal`: the agent of those who show no key. */
  readonly publicSubjects?: { readonly principal: string | null };
  /** The last of it: nothing of the cluster is used any more. */
  close(): Promise<void>;
}
