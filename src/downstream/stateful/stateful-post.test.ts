import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { send } from '../../../test/support/raw-http.ts';
import type { HandshakeView } from '../../gateway/resolve/resolver.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure } from '../../model/outcome.ts';
import { errorAnswer } from '../../protocol/compose.ts';

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start({ servers: ['memory', 'files'] });
});
after(() => rig.close());

test('S2.29 check:C5 proto:S1 initialize opens a session and returns its id of 128 random bits', async () => {
  const init = call(1, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x' } });
  const [one, two] = await Promise.all([rig.post(init), rig.post(init)]);
  assert.equal(one.status, 200);
  assert.match(String(one.headers['mcp-session-id']), /^[0-9a-f]{32}$/);
  assert.notEqual(one.headers['mcp-session-id'], two.headers['mcp-session-id']);
  assert.deepEqual(one.json, {
    jsonrpc: '2.0',
    id: 1,
    result: {
      protocolVersion: '2025-06-18',
      capabilities: { tools: { listChanged: true }, logging: {} },
      serverInfo: { name: 'fake', version: '1' },
      instructions: 'be kind',
    },
  });
});

test('an unknown revision is answered with the newest stateful one', async () => {
  for (const [asked, given] of [
    ['2024-11-05', '2024-11-05'],
    ['2025-03-26', '2025-03-26'],
    ['2025-11-25', '2025-11-25'],
    ['2026-07-28', '2025-11-25'],
    ['1999-01-01', '2025-11-25'],
  ] as const) {
    const reply = await rig.post(call(1, 'initialize', { protocolVersion: asked, capabilities: {} }));
    assert.equal(reply.json.result.protocolVersion, given);
  }
});

test('a server that cannot be reached opens no session', async () => {
  const before = rig.downstream.sessions.size;
  const handshake = rig.core.handshakeAnswer;
  rig.core.handshakeAnswer = new GatewayError('NOT_SENT', 'it is down');
  const reply = await rig.post(call(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} }));
  rig.core.handshakeAnswer = handshake;
  assert.equal(reply.headers['mcp-session-id'], undefined);
  assert.equal(reply.json.error.code, 53001);
  assert.equal(rig.downstream.sessions.size, before);
});

test("a server's endpoint answers with the server's result, unknown members included", async () => {
  const own =
    '{"protocolVersion":"2025-06-18","capabilities":{"x":1.0},"serverInfo":{"name":"m","version":"1"},"more":[1E3]}';
  const handshake = rig.core.handshakeAnswer;
  rig.core.handshakeAnswer = {
    ...(handshake as HandshakeView),
    handshake: {
      era: 'stateful',
      revision: '2025-06-18',
      result: Buffer.from(own),
      serverInfo: '{"name":"m","version":"1"}',
      capabilities: '{"x":1.0}',
      instructions: null,
    },
  };
  const init = call(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} });
  const reply = await rig.post(init, {}, '/servers/memory/mcp');
  rig.core.handshakeAnswer = handshake;
  assert.equal(reply.text, `{"jsonrpc":"2.0","id":1,"result":${own.replace('2025-06-18', '2025-11-25')}}`);
});

test('a JSON answer keeps the client’s id and all digits unchanged', async () => {
  const headers = await rig.session();
  rig.core.on('tools/call', (exchange) => ok(exchange, '{"n":12345678901234567890,"z":1.0,"content":[]}'));
  for (const id of ['7', '-1', '9007199254740993', '12345678901234567890', '"7"', '"a\\u0062\\n"', '"ß😀"', '""']) {
    const reply = await rig.post(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"},"id":${id}}`, headers);
    assert.equal(reply.status, 200);
    assert.equal(reply.headers['content-type'], 'application/json');
    assert.equal(reply.headers['mcp-session-id'], undefined);
    assert.equal(reply.text, `{"jsonrpc":"2.0","id":${id},"result":{"n":12345678901234567890,"z":1.0,"content":[]}}`);
  }
});

test('a large result passes whole', async () => {
  const headers = await rig.session();
  const text = 'x'.repeat(1_000_000);
  rig.core.on('resources/read', (exchange) => ok(exchange, `{"contents":[{"text":"${text}"}]}`));
  const reply = await rig.post(call('big', 'resources/read', { uri: 'a:b' }), headers);
  assert.equal(reply.json.id, 'big');
  assert.equal(reply.json.result.contents[0].text, text);
});

test('S2.31 a failed tool call is a result that a model can read on the aggregate, and a JSON-RPC error on one server’s endpoint', async () => {
  rig.core.on('tools/call', () => failure(new GatewayError('TIMEOUT', 'it took too long')));
  const aggregate = await rig.post(call(1, 'tools/call', { name: 't' }), await rig.session());
  assert.equal(aggregate.status, 200);
  assert.equal(aggregate.json.result.isError, true);
  assert.equal(aggregate.json.result._meta['trunkline/error'].outcome, 'UNKNOWN');
  const path = '/servers/memory/mcp';
  const single = await rig.post(call(1, 'tools/call', { name: 't' }), await rig.session({ path }), path);
  assert.equal(single.status, 200);
  assert.equal(single.json.error.code, 53003);
  assert.equal(single.json.error.data.sent, true);
});

test('fault:F23 a failure with a time for the next try has it in a header, too', async () => {
  const error = new GatewayError('RATE_LIMITED', 'too often', { server: 'memory', retryAfterMs: 1_200 });
  rig.core.on('tools/call', () => failure(error));
  const aggregate = await rig.post(call(1, 'tools/call', { name: 't' }), await rig.session());
  assert.equal(aggregate.headers['retry-after'], '2');
  assert.equal(aggregate.json.result._meta['trunkline/error'].retryAfterMs, 1_200);
  const path = '/servers/memory/mcp';
  const single = await rig.post(call(1, 'tools/call', { name: 't' }), await rig.session({ path }), path);
  assert.deepEqual([single.status, single.headers['retry-after'], single.json.error.code], [200, '2', 53011]);
  rig.core.on('tools/call', () => failure(new GatewayError('TIMEOUT', 'it took too long')));
  const other = await rig.post(call(1, 'tools/call', { name: 't' }), await rig.session());
  assert.equal(other.headers['retry-after'], undefined);
});

test("a server's own error passes unchanged", async () => {
  rig.core.on('prompts/get', () => answer(errorAnswer('0', -32042, 'mine', '{"x":1.50}', 'stateful')));
  const reply = await rig.post(call(3, 'prompts/get', { name: 'p' }), await rig.session());
  assert.equal(reply.status, 200);
  assert.match(reply.text, /"id":3,.*"code":-32042,.*"data":\{"x":1\.50\}/);
});

test('S2.34 the gateway answers ping itself, notifications with 202 and no body, and passes on unknown methods', async () => {
  const headers = await rig.session({ capabilities: { roots: { listChanged: true } } });
  const ran = rig.core.ran.length;
  assert.deepEqual((await rig.post(call(1, 'ping'), headers)).json.result, {});
  const initialized = await rig.post('{"jsonrpc":"2.0","method":"notifications/initialized"}', headers);
  assert.equal(initialized.status, 202);
  assert.equal(initialized.text, '');
  assert.equal(rig.core.ran.length, ran);
  assert.equal(rig.core.notified.length, 0);
  await rig.post('{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}', headers);
  assert.equal(rig.core.notified[0]?.message.method, 'notifications/roots/list_changed');
  assert.equal(rig.core.notified[0]?.client.sessionId, rig.downstream.sessions.find(headers['mcp-session-id']!)!.id);
});

test('a client without notifications/initialized and without a revision header is served', async () => {
  const { 'mcp-session-id': id } = await rig.session({ revision: '2025-06-18' });
  const reply = await rig.post(call(1, 'tools/list'), { 'mcp-session-id': id! });
  assert.equal(reply.status, 200);
});

test('proto:S1 a session exists for its endpoint only, and not for invalid ids', async () => {
  const headers = await rig.session({ path: '/servers/memory/mcp' });
  const list = call('x1', 'tools/list');
  assert.equal((await rig.post(list, headers, '/servers/memory/mcp')).status, 200);
  for (const path of ['/mcp', '/servers/files/mcp']) {
    const reply = await rig.post(list, headers, path);
    assert.equal(reply.status, 404, path);
    assert.equal(reply.json.id, 'x1');
  }
  const ids = [
    '0'.repeat(32),
    'x',
    `${headers['mcp-session-id']}0`,
    '../../etc/passwd',
    "' OR 1=1 --",
    'A'.repeat(8192),
  ];
  for (const id of ids) assert.equal((await rig.post(list, { 'mcp-session-id': id })).status, 404, id.slice(0, 40));
  assert.equal(
    (await rig.post(call(1, 'initialize', { protocolVersion: '2025-11-25' }), { 'mcp-session-id': '1'.repeat(32) }))
      .status,
    404,
  );
});

test('without a session id: POST and DELETE 400, GET 405', async () => {
  const post = await rig.post(call(5, 'tools/list'));
  assert.equal(post.status, 400);
  assert.equal(post.json.error.code, -32600);
  assert.equal(post.json.id, 5);
  assert.equal((await send(rig.url(), 'DELETE')).status, 400);
  const get = await send(rig.url(), 'GET', { accept: 'text/event-stream' });
  assert.equal(get.status, 405);
  assert.equal(get.headers['allow'], 'POST');
});

test('initialize within a session is refused, and so is a revision that was not agreed', async () => {
  const headers = await rig.session();
  const again = await rig.post(call(2, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} }), headers);
  assert.equal(again.status, 400);
  assert.equal(again.json.error.code, -32600);
  for (const revision of ['2025-06-18', '2099-01-01', 'v1']) {
    const reply = await rig.post(call(2, 'tools/list'), { ...headers, 'mcp-protocol-version': revision });
    assert.equal(reply.status, 400, revision);
  }
});

test('check:C5 DELETE ends the session and its calls; then the session does not exist', async () => {
  const headers = await rig.session();
  let cancelled = '';
  rig.core.on(
    'tools/call',
    (exchange) =>
      new Promise((resolve) => {
        exchange.onCancel = (reason) => {
          cancelled = reason;
          resolve(failure(new GatewayError('CANCELLED', reason)));
        };
      }),
  );
  const ran = rig.core.ran.length;
  const running = rig.post(call(1, 'tools/call', { name: 't' }), headers);
  while (rig.core.ran.length === ran) await new Promise((resolve) => setTimeout(resolve, 5));
  const { id } = rig.downstream.sessions.find(headers['mcp-session-id']!)!;
  assert.equal((await send(rig.url(), 'DELETE', headers)).status, 204);
  await running;
  assert.notEqual(cancelled, '');
  assert.ok(rig.core.ended.includes(id));
  assert.equal((await rig.post(call(1, 'tools/list'), headers)).status, 404);
  assert.equal((await send(rig.url(), 'DELETE', headers)).status, 404);
  assert.equal((await send(rig.url(), 'GET', { ...headers, accept: 'text/event-stream' })).status, 404);
});

test('an unknown endpoint is 404 with a reason', async () => {
  const reply = await rig.post(call(1, 'initialize', { protocolVersion: '2025-11-25' }), {}, '/servers/nobody/mcp');
  assert.equal(reply.status, 404);
  assert.match(reply.json.error.message, /no server of this name/);
  for (const path of [
    '/',
    '/nothing',
    '/.well-known/oauth-protected-resource',
    '/.well-known/oauth-authorization-server/mcp',
    '/register',
  ]) {
    assert.equal((await send(rig.url(path), 'GET')).status, 404, path);
  }
  assert.equal((await send(rig.url(), 'PUT')).status, 405);
});

test('client answers without a request are refused', async () => {
  const headers = await rig.session();
  for (const body of [
    '{"jsonrpc":"2.0","id":"s-1","result":{}}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}',
  ]) {
    const reply = await rig.post(body, headers);
    assert.equal(reply.status, 400);
    assert.equal(reply.json.error.code, -32600);
  }
});

test('a session has its limit of calls in flight', async () => {
  const headers = await rig.session();
  const open: (() => void)[] = [];
  rig.core.on('tools/call', (exchange) => new Promise((resolve) => open.push(() => resolve(ok(exchange, '{}')))));
  const running = Array.from({ length: 256 }, (_, i) => rig.post(call(i, 'tools/call', { name: 't' }), headers));
  while (open.length < 256) await new Promise((resolve) => setTimeout(resolve, 5));
  const reply = await rig.post(call('one more', 'tools/call', { name: 't' }), headers);
  assert.equal(reply.status, 429);
  assert.equal(reply.json.id, 'one more');
  assert.ok(Number(reply.headers['retry-after']) > 0);
  for (const finish of open) finish();
  assert.deepEqual(
    (await Promise.all(running)).map((answered) => answered.json.id),
    Array.from({ length: 256 }, (_, i) => i),
  );
});

test('batches: 2025-03-26 has them, later revisions do not', async () => {
  rig.core.on('tools/call', (exchange) => ok(exchange, '{"ok":true}'));
  const batch = `[${call(1, 'ping')},{"jsonrpc":"2.0","method":"notifications/initialized"},${call('b', 'tools/call')}]`;
  const old = await rig.session({ revision: '2025-03-26' });
  const reply = await rig.post(batch, old);
  assert.equal(reply.status, 200);
  const ids = reply.json.map(({ id, result }: { id: unknown; result: unknown }) => [id, result]);
  assert.deepEqual(ids, [
    [1, {}],
    ['b', { ok: true }],
  ]);
  assert.equal((await rig.post('[{"jsonrpc":"2.0","method":"notifications/initialized"}]', old)).status, 202);
  for (const bad of [
    '[]',
    '[1]',
    `[${call(1, 'initialize')}]`,
    `[${Array(20_000).fill(call(1, 'ping')).join()}]`,
    '[',
  ]) {
    assert.equal((await rig.post(bad, old)).status, 400, bad.slice(0, 40));
  }
  const today = await rig.post(batch, await rig.session());
  assert.equal(today.status, 400);
  assert.equal(today.json.error.code, -32600);
  assert.equal((await rig.post(batch)).status, 400);
});
