import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Json } from '../../../test/support/raw-http.ts';
import { textServer } from '../../../test/support/text-server.ts';
import { WireClient } from '../../../test/support/wire-client.ts';
import type { SessionRecord } from '../../model/ports.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { CallLog } from '../../telemetry/call-log.ts';
import { Logger } from '../../telemetry/logger.ts';
import { labelOf } from '../../upstream/connection/session-key.ts';
import type { Components } from '../components.ts';
import { openGateway } from '../embedding/open-gateway.ts';
import { sessionViews } from './session-views.ts';
import { taskPlane } from './task-plane.ts';

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

test('the servers are asked once for all sessions, and the view has the number of all sessions', async () => {
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

test('a session that an operator ends is ended once', async () => {
  const { gateway, components } = await openGateway({ servers: { s: textServer({}) } });
  try {
    const ended: string[] = [];
    const end = components.gateway.sessionEnded.bind(components.gateway);
    components.gateway.sessionEnded = (id) => {
      ended.push(id);
      end(id);
    };
    const { mcpUrl, controlUrl, controlToken } = await gateway.listen({ port: 0, controlPort: 0 });
    await WireClient.open(mcpUrl);
    const ask = async (path: string, method: string): Promise<Json> => {
      const headers = { authorization: `Bearer ${controlToken}` };
      return (await fetch(new URL(path, controlUrl), { method, headers })).json();
    };
    const { sessions } = await ask('/api/v1/sessions', 'GET');
    assert.equal(sessions.length, 1);
    await ask(`/api/v1/sessions/${sessions[0].label}`, 'DELETE');
    assert.equal(ended.length, 1);
    assert.deepEqual((await ask('/api/v1/sessions', 'GET')).sessions, []);
  } finally {
    await gateway.close();
  }
});

test('the client of a task is shown like that of a session: without control characters and cut', () => {
  const task = (info: object) => {
    const client = { info: JSON.stringify(info) };
    return { client, sessionId: null, description: Buffer.from('{}'), startedAt: 0, expiresAt: 0 };
  };
  const all = [{ name: 'a\u202eb', version: '1' }, { name: { a: 1 } }, { name: 'x'.repeat(900) }].map(task);
  const gateway = { tasks: { all: () => all } } as unknown as Components['gateway'];
  const authenticator = {} as Components['authenticator'];
  const calls = new CallLog('run', null, Logger.silent(), 1);
  const shown = taskPlane({ gateway, authenticator, calls }).list();
  assert.deepEqual(
    shown.map(({ client }) => client),
    all.map(({ client }) => calls.clientName(client.info)),
  );
  assert.ok(
    shown.every(({ client }) => client === null || /^[ -~…]{1,260}$/.test(client)),
    JSON.stringify(shown),
  );
});
