import type { ServedCalls } from './calls/served-calls.ts';
import type { ClusterCalls } from './cluster-calls.ts';
import type { NodeReport } from './cluster-deps.ts';
import type { NodeLease } from './lease/node-lease.ts';
import type { Advertisements } from './nodes/advertisements.ts';
import type { NodeView } from './nodes/node-state.ts';
import type { Nodes } from './nodes/nodes.ts';
import type { OwnAdvertisement } from './nodes/own-advertisement.ts';
import type { Claims } from './ownership/claims.ts';

/** What this node does and has in its cluster, in numbers. Counts are since its start. */
export interface ClusterFigures {
  /** Since the sending of the last renewal that was acknowledged; null without a lease. */
  readonly leaseAgeMs: number | null;
  /** What only one node may own, and this one does. */
  readonly owned: number;
  /** Taken over from nodes that were gone. */
  readonly takenOver: number;
  /** Calls of other nodes that were served here. */
  readonly servedForOthers: number;
  /** Calls of clients here that went to other nodes. */
  readonly servedByOthers: number;
}

export function figuresOf(lease: NodeLease, claims: Claims, served: ServedCalls, calls: ClusterCalls): ClusterFigures {
  return {
    leaseAgeMs: lease.ageMs,
    owned: claims.size,
    takenOver: claims.takenOver,
    servedForOthers: served.count,
    servedByOthers: calls.sentElsewhere,
  };
}

/** All nodes as this one knows them, by name. */
export function nodeReports(
  self: NodeView,
  offer: OwnAdvertisement,
  nodes: Nodes,
  advertisements: Advertisements,
): readonly NodeReport[] {
  const names = (servers: Iterable<string>): string[] => [...servers].sort();
  const own = { ...self, here: true, servers: names(offer.servers.map(({ name }) => name)) };
  const others = [...nodes.others()].map((node) => ({
    ...node,
    here: false,
    servers: names((advertisements.of(node.peer) ?? []).map(({ definition }) => definition.name)),
  }));
  return [own, ...others].sort((a, b) => (a.id < b.id ? -1 : 1));
}
