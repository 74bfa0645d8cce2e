import type { Cluster } from '../../cluster/cluster.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { ClusterConnection } from './cluster-connection.ts';

/** Registers the metrics of the cluster and its bus; outside a cluster they have no series. */
export function registerClusterGauges(
  metrics: Metrics,
  cluster: Cluster | null,
  connection: ClusterConnection | null,
): void {
  const nodes = metrics.gauge('trunkline_cluster_nodes', 'Nodes of the cluster as this one sees them.', ['state']);
  const conflicts = metrics.gauge('trunkline_cluster_conflicts', 'Servers that nodes define differently.');
  const age = metrics.gauge(
    'trunkline_cluster_lease_age_seconds',
    'Time since the last renewal of the lease of this node; from 2 s on other nodes must confirm it.',
  );
  const owned = metrics.gauge('trunkline_cluster_owned', 'Sessions with processes, and singletons, of this node.');
  const taken = metrics.counter('trunkline_cluster_takeovers_total', 'What was taken over from nodes that were gone.');
  const calls = metrics.counter(
    'trunkline_cluster_calls_total',
    'Calls that crossed nodes: of other nodes that were served here (in), of clients here that went elsewhere (out).',
    ['direction'],
  );
  const connected = metrics.gauge('trunkline_bus_connected', 'Whether this node reaches the bus of its cluster.');
  const reconnects = metrics.counter('trunkline_bus_reconnects_total', 'Connections to the bus after the first.');
  const messages = metrics.counter('trunkline_bus_messages_total', 'Messages of the connection to the bus.', [
    'direction',
  ]);
  const bytes = metrics.counter('trunkline_bus_bytes_total', 'Bytes of the connection to the bus.', ['direction']);
  const refused = metrics.counter(
    'trunkline_bus_messages_refused_total',
    'Messages that were not signed by this cluster, came twice, or too late.',
  );
  const slow = metrics.counter('trunkline_bus_slow_consumers_total', 'Receivers that were cut or lost messages.');
  if (cluster === null || connection === null) return;
  metrics.onScrape(() => {
    nodes.clear();
    for (const { state } of cluster.known.nodes()) nodes.of(state).add();
    conflicts.of().set(cluster.known.conflicts.length);
    const { leaseAgeMs, owned: has, takenOver, servedForOthers, servedByOthers } = cluster.figures;
    age.clear();
    if (leaseAgeMs !== null) age.of().set(leaseAgeMs / 1e3);
    owned.of().set(has);
    taken.of().set(takenOver);
    calls.of('in').set(servedForOthers);
    calls.of('out').set(servedByOthers);
    const { status } = connection.bus;
    connected.of().set(status.state === 'connected' ? 1 : 0);
    reconnects.of().set(status.reconnects);
    refused.of().set(status.refused);
    slow.of().set(status.slowConsumers);
    const traffic = connection.wire.traffic?.() ?? null;
    if (traffic === null) return;
    messages.of('in').set(traffic.messagesIn);
    messages.of('out').set(traffic.messagesOut);
    bytes.of('in').set(traffic.bytesIn);
    bytes.of('out').set(traffic.bytesOut);
  });
}
