import type { Cluster } from '../../cluster/cluster.ts';
import type { SharedSessionRecords } from '../../cluster/sessions/shared-session-records.ts';
import type { Downstream, DownstreamDeps } from '../../downstream/downstream.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { Upstreams } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';

/** Applies changes and ends of sessions at other nodes to this node. */
export function followSessions(records: SharedSessionRecords, downstream: Downstream, gateway: Gateway): void {
  records.follow({
    changed: (record) => downstream.sessions.applyRecord(record),
    reviewed: (record) => downstream.sessions.review(record),
    gone(id) {
      const session = downstream.sessions.get(id);
      if (session !== undefined) downstream.sessions.end(session, 'the session was ended');
      // Its calls may have been served here for another node.
      else gateway.sessionEnded(id);
    },
  });
}

/** Returns how the downstream side reaches the other nodes. */
export function acrossNodes(cluster: Cluster): Pick<DownstreamDeps, 'relay' | 'onStreamOpened' | 'others' | 'copies'> {
  return {
    relay: (sessionId, message) => cluster.streams.forward(sessionId, message),
    onStreamOpened: (sessionId) =>
      void cluster.clients.subscriptions.opened(sessionId, cluster.streams.opened(sessionId)),
    others: cluster.clients,
    ...(cluster.clients.copies === undefined ? {} : { copies: cluster.clients.copies }),
  };
}

/** The desired state with the servers of all nodes in place of those of this one. Returns the same object until it changes. */
export function clusterDesiredState(own: () => DesiredState, allUpstreams: Upstreams): () => DesiredState {
  let state: DesiredState | null = null;
  let servers: readonly Server[] = [];
  let joined: DesiredState | null = null;
  return () => {
    const now = own();
    const all = allUpstreams.servers();
    if (joined === null || now !== state || all !== servers) {
      state = now;
      servers = all;
      joined = { ...now, servers: new Map(all.map((server) => [server.name, server])) };
    }
    return joined;
  };
}
