import type { Cluster } from '../../cluster/cluster.ts';
import type { SharedSessionRecords } from '../../cluster/sessions/shared-session-records.ts';
import type { Downstream, DownstreamDeps } from '../../downstream/downstream.ts';
import type { Gateway } from '../../gateway/gateway.ts';

/** A change or the end of a session at one node holds at the others. */
export function followSessions(records: SharedSessionRecords, downstream: Downstream, gateway: Gateway): void {
  records.follow({
    changed: (record) => downstream.sessions.heard(record),
    gone(id) {
      const session = downstream.sessions.get(id);
      if (session !== undefined) downstream.sessions.end(session, 'the session was ended');
      // Its calls may have been served here for another node.
      else gateway.sessionEnded(id);
    },
  });
}

/** What the clients' side reports to the other nodes. */
export function acrossNodes(cluster: Cluster): Pick<DownstreamDeps, 'relay' | 'streaming' | 'others' | 'copies'> {
  return {
    relay: (sessionId, message) => cluster.forward(sessionId, message),
    streaming: (sessionId) => cluster.clients.opened(sessionId, cluster.streams.opened(sessionId)),
    others: cluster.clients,
    ...(cluster.clients.copies === undefined ? {} : { copies: cluster.clients.copies }),
  };
}
