import type { Cluster } from '../../cluster/cluster.ts';
import { SharedSessionRecords } from '../../cluster/sessions/shared-session-records.ts';
import type { Downstream, DownstreamDeps } from '../../downstream/downstream.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ClusterConnection } from './cluster-connection.ts';

export interface SharedSessionsDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly gateway: Gateway;
  readonly downstream: () => Downstream;
  readonly cluster: Cluster | null;
}

/** The sessions of all nodes: what one of them changes or ends, the others have in theirs. */
export function sharedSessions({ bus, state }: ClusterConnection, deps: SharedSessionsDeps): SharedSessionRecords {
  const { clock, logger, gateway, downstream, cluster } = deps;
  return new SharedSessionRecords({
    bus,
    others: () => (cluster?.nodes() ?? []).filter(({ here }) => !here).map(({ peer }) => peer),
    state,
    clock,
    logger,
    changed: (record) => downstream().sessions.heard(record),
    gone(id) {
      const session = downstream().sessions.get(id);
      if (session !== undefined) downstream().sessions.end(session, 'the session was ended');
      // Its calls may have been served here for another node.
      else gateway.sessionEnded(id);
    },
  });
}

/** What the clients' side tells the other nodes of. */
export function acrossNodes(cluster: Cluster): Pick<DownstreamDeps, 'relay' | 'streaming' | 'others' | 'copies'> {
  return {
    relay: (sessionId, message) => cluster.forward(sessionId, message),
    streaming: (sessionId) => cluster.clients.opened(sessionId, cluster.streams.opened(sessionId)),
    others: cluster.clients,
    ...(cluster.clients.copies === undefined ? {} : { copies: cluster.clients.copies }),
  };
}
