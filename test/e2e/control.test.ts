import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import { type Json, send } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const SECRET = 'secret-that-is-said-nowhere-1';

describe('the control listener of a running gateway', () => {
  let gateway: RunningGateway;
  let client: WireClient;
  before(async () => {
    const config = {
      mcpServers: {
        good: manySided('good', { SECRET_TOKEN: SECRET, MODE: 'production' }),
        slow: manySided('slow', {}, { timeoutMs: 200 }),
        web: { type: 'http', url: 'http://127.0.0.1:9/mcp', headers: { authorization: `Bearer ${SECRET}` } },
      },
      log: { level: 'debug' },
    };
    gateway = await RunningGateway.start({ config });
    await gateway.ready('good', 'slow');
    client = await WireClient.open(gateway.mcpUrl);
    await client.callText('good__echo', { text: 'x' });
    await client.request('tools/call', { name: 'slow__sleep', arguments: { ms: 5_000 } });
  });
  after(() => gateway.dispose());

  test('S2.24 check:J1 the status of a server: the keys of the seeds and the gateway’s own', async () => {
    const { servers } = await gateway.control<{ servers: Json[] }>('/api/v1/servers');
    const good = servers.find(({ name }) => name === 'good');
    assert.deepEqual(
      [good.name, good.transport, good.initialized, good.compat.external, good.compat.localProcess, good.compat.ssh],
      ['good', 'stdio', true, false, true, false],
    );
    assert.equal(good.toolCount, good.tools.length);
    assert.ok(good.tools.includes('echo'));
    for (const key of ['endpoint', 'containerId', 'sshHost']) assert.ok(Object.hasOwn(good, key), key);
    assert.deepEqual([good.state, good.health, good.consecutiveFailures], ['running', 'healthy', 0]);
    assert.ok(good.connections.some((one: Json) => Number.isInteger(one.pid)));
    const web = servers.find(({ name }) => name === 'web');
    assert.deepEqual(
      [web.compat.external, web.compat.localProcess, web.endpoint],
      [true, false, 'http://127.0.0.1:9/mcp'],
    );
    assert.ok(
      web.consecutiveFailures >= 1 && web.nextRetryAt > Date.now() - 1_000 && web.reason.includes('127.0.0.1:9'),
    );
    assert.ok(!JSON.stringify(servers).includes(SECRET));
  });

  test('S2.24 S3.16 S3.17 S3.18 check:J1 the definition and the attempts, in the keys of the seeds, without a secret', async () => {
    const { servers } = await gateway.control<{ servers: Json[] }>('/api/v1/servers');
    const one = (name: string) => servers.find((server) => server.name === name);
    const good = one('good');
    for (const key of [
      'name',
      'transport',
      'endpoint',
      'containerId',
      'initialized',
      'toolCount',
      'tools',
      'sshHost',
    ]) {
      assert.ok(Object.hasOwn(good, key), key);
    }
    assert.deepEqual(good.tools, [...good.tools].sort());
    assert.ok(good.tools.every((tool: string) => !tool.startsWith('good__')));
    assert.deepEqual(
      [
        good.compat.type,
        good.compat.autoStart,
        good.compat.clientReady,
        good.compat.error,
        good.compat.url,
        good.compat.timeout,
      ],
      ['stdio', true, true, null, null, 60],
    );
    assert.equal(typeof good.command, 'string');
    assert.ok(Array.isArray(good.args) && good.args.length > 0);
    // Values that cannot be distinguished from secrets are hidden, too.
    assert.deepEqual([good.env.SECRET_TOKEN, good.env.MODE], ['[redacted]', '[redacted]']);
    assert.deepEqual([good.headers, good.description, good.compat.nextRetryAfter], [{}, null, null]);
    assert.equal(Date.parse(good.compat.lastAttempt), good.lastAttemptAt);
    assert.equal(one('slow').compat.timeout, 0.2);
    assert.deepEqual(
      [good.compat.client, good.compat.toolPrefix, good.compat.family, good.compat.auth],
      [{ transport: 'stdio', revision: good.revision }, 'good__', null, { type: 'static' }],
    );
    assert.deepEqual([one('slow').compat.auth, good.authChallenge], [null, null]);
    const web = one('web');
    assert.equal(web.compat.client, null);
    assert.deepEqual(web.compat.auth, { type: 'static' });
    assert.deepEqual(
      [web.compat.type, web.compat.url, web.command, web.args, web.compat.clientReady],
      ['http', 'http://127.0.0.1:9/mcp', null, [], false],
    );
    assert.deepEqual(web.headers, { authorization: '[redacted]' });
    assert.match(web.compat.error, /127\.0\.0\.1:9/);
    assert.ok(Date.parse(web.compat.nextRetryAfter) > Date.parse(web.compat.lastAttempt));
    assert.ok(!JSON.stringify(servers).includes(SECRET));
  });

  test('check:J2 /livez, /readyz and /healthz answer 200 in any state of single servers; /health has the detail', async () => {
    const { origin } = new URL(gateway.mcpUrl);
    for (const path of ['/livez', '/readyz', '/healthz']) {
      assert.equal((await send(`${origin}${path}`, 'GET')).status, 200, path);
    }
    const health = await send(`${origin}/health`, 'GET');
    assert.equal(health.status, 200);
    assert.equal(typeof health.json, 'object');
    assert.ok(!health.text.includes(SECRET));
  });

  test('every operation needs the token, whose file only the user can read', async () => {
    const file = join(gateway.folder, 'data', 'control.token');
    assert.equal(statSync(file).mode & 0o077, 0);
    const token = readFileSync(file, 'utf8').trim();
    for (const [method, path] of [
      ['GET', '/api/v1/gateway'],
      ['GET', '/api/v1/servers'],
      ['GET', '/api/v1/servers/good'],
      ['POST', '/api/v1/servers/good/restart'],
      ['POST', '/api/v1/servers/good/call?tool=echo'],
      ['GET', '/api/v1/tools'],
      ['GET', '/api/v1/sessions'],
      ['DELETE', '/api/v1/sessions/x'],
      ['GET', '/metrics'],
    ] as const) {
      for (const headers of [{}, { authorization: 'Bearer wrong' }, { cookie: `token=${token}` }]) {
        assert.equal((await send(gateway.controlUrl + path, method, headers)).status, 401, `${method} ${path}`);
      }
      assert.equal((await send(`${gateway.controlUrl}${path}?token=${token}`, method)).status, 401);
    }
  });

  test('restart, call, tools and sessions work as documented', async () => {
    const who = async () =>
      JSON.parse(
        (await gateway.control<Json>('/api/v1/servers/good/call?tool=who', 'POST', '{}')).result.content[0].text,
      ).pid;
    const pid = await who();
    const restarted = await gateway.control<Json>('/api/v1/servers/good/restart', 'POST');
    assert.equal(restarted.state, 'running');
    assert.notEqual(await who(), pid);
    assert.equal(await client.callText('good__echo', { text: 'after' }), 'after');
    const { tools } = await gateway.control<{ tools: Json[] }>('/api/v1/tools?server=good');
    assert.equal(tools.length, 10);
    const echo = tools.find(({ name }) => name === 'echo');
    assert.equal(echo.exposedName, 'good__echo');
    const [asListed] = (await client.result('tools/list')).tools.filter(({ name }: Json) => name === 'good__echo');
    assert.equal(echo.bytes, Buffer.byteLength(JSON.stringify(asListed)), 'bytes are those that clients get');
    assert.equal(echo.tokens, Math.ceil(echo.bytes / 4));
    assert.ok(Date.now() - Date.parse(echo.lastUsed) < 120_000);
    assert.equal(tools.find(({ name }) => name === 'fail').lastUsed, null);
    const { clients } = await gateway.control<{ clients: Json[] }>(
      '/api/v1/tools/clients?client=codex&gateway=tl&tool=good__echo',
    );
    assert.deepEqual(clients[0].tools, [
      {
        server: 'good',
        exposedName: 'good__echo',
        shown: 'mcp__tl__good__echo',
        length: 19,
        beyond: null,
        tokens: echo.tokens,
      },
    ]);
    assert.ok(clients[0].tokens > echo.tokens, 'the figures are of all tools');
    await new Promise((done) => setTimeout(done, 200));
    const { sessions } = await gateway.control<{ sessions: Json[] }>('/api/v1/sessions');
    assert.equal(sessions.length, 1);
    assert.equal(sessions[0].clientInfo.name, 'wire');
    assert.ok(!JSON.stringify(sessions).includes(client.sessionId!));
    assert.equal(sessions[0].client, 'wire 1');
    const other = await WireClient.open(gateway.mcpUrl, { name: 'o'.repeat(1_000) });
    await other.callText('good__echo', { text: 'x' });
    await new Promise((done) => setTimeout(done, 200));
    const all = (await gateway.control<{ sessions: Json[] }>('/api/v1/sessions')).sessions;
    const { label, client: named } = all.find((one) => one.label !== sessions[0].label);
    const { calls } = await gateway.control<{ calls: Json[] }>(`/api/v1/calls?filter=session:${label}`);
    assert.deepEqual(new Set(calls.map((call) => call.client)), new Set([named]));
    await gateway.control(`/api/v1/sessions/${label}`, 'DELETE');
    assert.equal((await other.request('tools/list')).status, 404);
    assert.equal((await client.request('tools/list')).status, 200);
  });

  test('metrics have the names that dashboards use', async () => {
    const text = await gateway.metrics();
    for (const name of [
      'mcp_server_operation_duration_seconds_bucket',
      'mcp_client_operation_duration_seconds_bucket',
      'trunkline_sessions_open',
      'trunkline_calls_in_flight',
      'trunkline_server_state{server="good",state="running"} 1',
      'trunkline_server_restarts{server="good"}',
      'trunkline_server_calls_in_flight',
    ]) {
      assert.ok(text.includes(name), name);
    }
    const called = 'mcp_method_name="tools/call",error_type';
    for (const labels of [
      `${called}="",server="good",gen_ai_tool_name="echo"`,
      `${called}="53003",server="slow",gen_ai_tool_name="sleep"`,
    ]) {
      assert.ok(text.includes(`mcp_server_operation_duration_seconds_count{${labels}} `), labels);
    }
    assert.match(text, /mcp_client_operation_duration_seconds_count\{[^}]*error_type="53003",server="slow"\} [1-9]/);
    assert.match(text, /mcp_server_session_duration_seconds_count\{mcp_protocol_version="2025-11-25"\} [1-9]/);
    assert.ok(!text.includes(SECRET) && !text.includes(client.sessionId!));
  });

  test('log lines are JSON, name request, session and server, and have no secret id', async () => {
    const lines = gateway.stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    assert.ok(lines.every(({ time, level, event }) => time && level && event));
    const reported = lines.filter(({ session, request }) => session !== undefined && request !== undefined);
    assert.ok(reported.length > 0, 'no line names a request and its session');
    const failed = reported.find(({ event }) => event === 'call_failed');
    assert.deepEqual([failed?.server, failed?.method, failed?.code], ['slow', 'tools/call', 'TIMEOUT']);
    assert.ok(!gateway.stderr.includes(client.sessionId!));
    assert.ok(!gateway.stderr.includes(SECRET));
  });
});
