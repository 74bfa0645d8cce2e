import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SessionRecord } from '../../model/ports.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { CallLog } from '../../telemetry/call-log.ts';
import { Logger } from '../../telemetry/logger.ts';
import { labelOf } from '../../upstream/connection/session-key.ts';
import { sessionViews } from './session-views.ts';

const record = (id: string): SessionRecord =>
  ({
    id,
    principal: 'anonymous',
    endpoint: '/mcp',
    revision: '2025-11-25',
    info: '{"name":"client"}',
    capabilities: '{}',
    createdAt: 0,
    lastSeenAt: 1_000,
  }) as SessionRecord;

test('the servers are asked once for all sessions, and it is said how many sessions there are', async () => {
  let asked = 0;
  const server = (name: string, ...sessionIds: string[]) => {
    const connections = sessionIds.map((sessionId) => ({ key: labelOf({ kind: 'session', sessionId }) }));
    return { name, connections: [...connections, ...connections] } as unknown as ServerStatus;
  };
  const all = Array.from({ length: 500 }, (_, at) => record(`session ${at}`));
  const view = await sessionViews({
    records: {
      all: async () => all,
      census: { nodes: 2, count: () => 700, longestUnused: () => null },
    },
    upstreams: {
      statuses() {
        asked++;
        return [server('one', 'session 3'), server('two', 'session 3', 'session 4')];
      },
    },
    calls: new CallLog('run', null, Logger.silent(), 1),
    downstream: { sessions: { get: () => undefined } },
  });
  assert.equal(asked, 1);
  assert.equal(view.total, 700);
  assert.deepEqual(
    view.sessions.slice(2, 6).map(({ servers }) => servers),
    [[], ['one', 'two'], ['two'], []],
  );
});
