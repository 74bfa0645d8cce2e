import type { SharedLog } from '../../bus/shared-log.ts';
import type { SharedState } from '../../bus/shared-state.ts';
import type { Wire } from '../../bus/wire.ts';
import type { ClusterDeps } from '../../cluster/cluster-deps.ts';
import type { ClusterIdentity } from '../../cluster/lease/cluster-identity.ts';

/** The ports by which the nodes of a cluster communicate, for `openNode` (S0.12). Each node has its own and closes it. */
export interface Messenger {
  readonly wire: Wire;
  readonly state: SharedState;
  /** Without it, the sessions of clients end with their node. */
  readonly log?: SharedLog;
  /** Name of the cluster; null or absent if it has none. */
  readonly name?: string | null;
  /** The cluster secret, then others that are accepted during a rotation; at least 32 bytes each. */
  readonly secrets: readonly string[];
}

/** What a gateway needs to be a node of a cluster: the bus, the shared state and log, and the keys. */
export interface ClusterConnection
  extends Pick<ClusterDeps, 'bus' | 'state' | 'log' | 'node' | 'onBusLoss' | 'key' | 'previousKeys'> {
  /** Name of the cluster; null or absent if it has none. */
  readonly name?: string | null;
  /** As in the settings; default `node`. */
  readonly sharedProcesses?: 'node' | 'session';
  /** Checks whether the other nodes have the same secret. */
  readonly identity: ClusterIdentity;
  /** The connection that the bus uses. */
  readonly wire: Wire;
  /** Present if the node serves programs on the public subjects; `principal` is the agent of programs without a key. */
  readonly publicSubjects?: { readonly principal: string | null };
  /** Called last, once nothing uses the connection any more. */
  close(): Promise<void>;
}
