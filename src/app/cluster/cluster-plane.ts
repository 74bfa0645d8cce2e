import type { Cluster } from '../../cluster/cluster.ts';
import type { ClusterPlane } from '../../control/control-plane.ts';

/** The cluster as the control API works on it; null for a lone gateway. */
export function clusterPlane(cluster: Cluster | null): ClusterPlane | null {
  if (cluster === null) return null;
  return {
    nodes: () =>
      cluster.nodes().map(({ id, peer, here, state, version, protocols, epoch, load, startedAt, servers }) => ({
        node: id,
        peer,
        here,
        state,
        version,
        protocols,
        epoch,
        calls: load,
        startedAt: new Date(startedAt).toISOString(),
        servers,
      })),
    conflicts: () => cluster.conflicts,
    drain: (node) => cluster.drainNode(node),
  };
}
