import type { ControlPlane } from '../control/control-plane.ts';
import type { DesiredView, SessionView } from '../control/schemas.ts';
import { pause } from '../model/clock.ts';
import { serverEndpoint } from '../model/exchange.ts';
import type { SessionRecord } from '../model/ports.ts';
import { sessionLabel } from '../telemetry/session-label.ts';
import { clusterPlane } from './cluster/cluster-plane.ts';
import { driftPlane } from './drift-plane.ts';
import { outcomeJson } from './outcome-json.ts';
import type { Rooms } from './rooms.ts';

/** What the control API works on, of this gateway. */
export function controlPlane(rooms: Rooms, app: Pick<ControlPlane, 'facts' | 'readiness'>): ControlPlane {
  const { everywhere: upstreams, metrics, serverEvents, serverLogs, downstream, gateway, operator, records } = rooms;
  return {
    upstreams,
    metrics,
    cluster: clusterPlane(rooms.cluster),
    drift: driftPlane(gateway, rooms.undecidable),
    events: serverEvents.journal,
    logs: serverLogs.journal,
    runTime: rooms.runTime,
    desired: (server) => desiredView(rooms, server),
    sessionId: async (label) => (await records.all()).find(({ id }) => sessionLabel(id) === label)?.id ?? null,
    wall: () => rooms.clock.wall(),
    pause: (ms) => pause(rooms.clock, ms),
    facts: () => app.facts(),
    readiness: () => app.readiness(),
    sessions: async () => (await records.all()).map(sessionView),
    async endSession(label) {
      const record = (await records.all()).find(({ id }) => sessionLabel(id) === label);
      if (record === undefined) return false;
      const session = downstream.sessions.get(record.id);
      if (session !== undefined) downstream.sessions.end(session, 'ended by the operator');
      records.delete(record.id);
      gateway.sessionEnded(record.id);
      return true;
    },
    async tools(server) {
      const catalog = await gateway.catalog(operator.profile, rooms.registry.state.firstListWaitMs);
      return catalog
        .items('tools')
        .filter((tool) => server === null || tool.server === server)
        .map(({ exposed, server: owner, item }) => ({
          exposedName: exposed,
          server: owner,
          name: item.key,
          definition: item.bytes.toString(),
        }));
    },
    async callTool(server, tool, argumentsJson) {
      const params = `{"name":${JSON.stringify(tool)},"arguments":${argumentsJson.toString()}}`;
      return outcomeJson(await operator.send(serverEndpoint(server), 'tools/call', params).outcome);
    },
  };
}

function desiredView({ runTime, registry }: Rooms, name: string): DesiredView | null {
  const found = runTime.provenance(name);
  if (found === null) return null;
  const { source, suspended, revision, expiresAt, sessionId } = found;
  const origin = source === 'file' ? registry.state.servers.get(name)?.origin : undefined;
  return {
    source,
    suspended,
    origin: origin === undefined ? null : origin.line > 0 ? `${origin.file}:${origin.line}` : origin.file,
    revision,
    expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    session: sessionId === null ? null : sessionLabel(sessionId),
  };
}

function sessionView(record: SessionRecord): SessionView {
  return {
    label: sessionLabel(record.id),
    principal: record.principal,
    endpoint: record.endpoint,
    revision: record.revision,
    clientInfo: record.info === null ? null : JSON.parse(record.info),
    createdAt: new Date(record.createdAt).toISOString(),
    lastSeenAt: new Date(record.lastSeenAt).toISOString(),
  };
}
