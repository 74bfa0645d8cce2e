import type { ConnectionStatus } from '../../model/server-state.ts';
import type { Connection } from '../connection/connection.ts';
import { connectionKeyText } from '../connection/connection-key.ts';

/** A pooled connection for people (S1.4): a copy, not the thing. `wallOffset` is wall clock minus monotonic time. */
export function connectionStatus(
  connection: Connection,
  server: string,
  key: string,
  wallOffset: number,
): ConnectionStatus {
  const { inFlight, use, live, transport, createdAt } = connection;
  return {
    id: connectionKeyText({ server, session: key }),
    key,
    state: !live ? 'closed' : inFlight > 0 ? 'active' : 'idle',
    pid: transport.pid,
    inFlight,
    createdAt,
    lastUsedAt: use.lastUsedAt + wallOffset,
    ...use.counts(),
  };
}
