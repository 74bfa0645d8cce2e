import type { SessionsView, SessionView } from '../../control/schemas.ts';
import type { SessionRecord } from '../../model/ports.ts';
import { sessionLabel } from '../../telemetry/session-label.ts';
import { labelOf } from '../../upstream/connection/session-key.ts';
import type { Components } from '../components.ts';

type Parts = {
  readonly records: Pick<Components['records'], 'all' | 'census'>;
  readonly upstreams: Pick<Components['upstreams'], 'statuses'>;
  readonly calls: Pick<Components['calls'], 'clientName'>;
  readonly downstream: { readonly sessions: Pick<Components['downstream']['sessions'], 'get'> };
};

/** Returns the open sessions in the records of this node, and the number of all open sessions. */
export async function sessionViews({ records, upstreams, downstream, calls }: Parts): Promise<SessionsView> {
  const all = await records.all();
  const serversOf = new Map<string, string[]>();
  for (const { name, connections } of upstreams.statuses()) {
    for (const key of new Set(connections.map((one) => one.key))) {
      const servers = serversOf.get(key);
      if (servers === undefined) serversOf.set(key, [name]);
      else servers.push(name);
    }
  }
  const view = (record: SessionRecord): SessionView => ({
    label: sessionLabel(record.id),
    principal: record.principal,
    endpoint: record.endpoint,
    revision: record.revision,
    client: calls.clientName(record.info),
    clientInfo: record.info === null ? null : JSON.parse(record.info),
    capabilities: JSON.parse(record.capabilities),
    here: downstream.sessions.get(record.id) !== undefined,
    servers: serversOf.get(labelOf({ kind: 'session', sessionId: record.id })) ?? [],
    createdAt: new Date(record.createdAt).toISOString(),
    lastSeenAt: new Date(record.lastSeenAt).toISOString(),
  });
  return { sessions: all.map(view), total: Math.max(all.length, records.census?.count(null) ?? 0) };
}
