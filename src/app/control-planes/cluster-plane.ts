import type { Claim } from '../../cluster/ownership/own-claims.ts';
import type { ClusterPlane } from '../../control/control-plane.ts';
import type { OwnedView, SharedPart } from '../../control/schemas.ts';
import { sessionLabel } from '../../telemetry/session-label.ts';
import { askNode } from '../cluster/control-of-nodes.ts';
import type { Components } from '../components.ts';

/** Returns the cluster for the control API; null for a lone gateway. `unread`: why desired state could not be read. */
export function clusterPlane(
  { cluster, connection }: Pick<Components, 'cluster' | 'connection'>,
  unread: () => readonly string[],
): ClusterPlane | null {
  if (cluster === null || connection === null) return null;
  return {
    nodes: () =>
      cluster.known.nodes().map(({ id, load, startedAt, busy, owned, full, ...node }) => ({
        node: id,
        peer: node.peer,
        here: node.here,
        state: node.state,
        version: node.version,
        protocols: node.protocols,
        epoch: node.epoch,
        calls: load,
        startedAt: new Date(startedAt).toISOString(),
        servers: node.servers,
        busy: busy ?? null,
        owned: owned ?? null,
        full: full ?? [],
      })),
    conflicts: () => cluster.known.conflicts,
    owned: () => cluster.owned.map(ownedView),
    shared(): SharedPart[] {
      const { state, reconnects, refused } = connection.bus.status;
      const { leaseAgeMs } = cluster.figures;
      const { noLeaseReason: lease } = cluster;
      const bus = `${state}; ${reconnects} reconnects; ${refused} messages refused`;
      const store = unread();
      const conflicts = cluster.known.conflicts.map(({ server }) => server).join(', ');
      return [
        { part: 'bus', healthy: state === 'connected', detail: bus },
        { part: 'lease', healthy: lease === null, detail: lease ?? `renewed ${Math.round(leaseAgeMs ?? 0)} ms ago` },
        {
          part: 'store',
          healthy: store.length === 0,
          detail: store.join('; ') || 'everything that should run was read',
        },
        {
          part: 'configuration',
          healthy: conflicts === '',
          detail: conflicts === '' ? 'the nodes define their servers alike' : `nodes define differently: ${conflicts}`,
        },
      ];
    },
    drain: (node) => cluster.drainNode(node),
    holder: (server) => cluster.known.server(server)?.nodes[0] ?? null,
    others: () => [...cluster.peers.others()].map(({ id }) => id),
    silent: () => [...cluster.peers.silent].map(([node, lostAt]) => ({ node, lostAt })),
    ask: (node, request, onEvent) => askNode(connection.bus, cluster, node, request, onEvent),
  };
}

function ownedView({ server, client, epoch, processes }: Claim): OwnedView {
  const sessionId = client?.sessionId ?? null;
  return {
    server,
    of: client === null ? 'all' : sessionId === null ? 'principal' : 'session',
    session: sessionId === null ? null : sessionLabel(sessionId),
    principal: client?.principal.id ?? null,
    epoch,
    processes,
  };
}
