import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { send } from '../../../test/support/raw-http.ts';
import { systemClock } from '../../model/clock.ts';
import { notification } from '../../protocol/compose.ts';
import { StateFile } from '../../store/state-file.ts';
import { Logger } from '../../telemetry/logger.ts';

/** Bad input of the groups jsonrpc, mcp and legacy, as data. */

const ADA = { authorization: 'Bearer key-of-ada' };
const BOB = { authorization: 'Bearer key-of-bob' };

let rig: DownstreamRig;
let session: Record<string, string>;
before(async () => {
  rig = await DownstreamRig.start({ servers: ['memory', 'files'], agents: { ada: null, bob: ['files'] } });
  session = await rig.session({ headers: ADA });
});
after(() => rig.close());

/** The gateway still serves the client it served before. */
async function alive(): Promise<void> {
  const reply = await rig.post(call('alive', 'ping'), session);
  assert.deepEqual(reply.json, { jsonrpc: '2.0', id: 'alive', result: {} });
}

const deep = (n: number): string =>
  `{"jsonrpc":"2.0","id":1,"method":"x","params":${'{"a":'.repeat(n)}1${'}'.repeat(n)}}`;
const keys = Array.from({ length: 20_000 }, (_, i) => `"k${i}":0`).join();

const NOT_JSON: readonly (string | Buffer)[] = [
  '{',
  '{"jsonrpc":"2.0","id":1,"method":"ping"',
  '{"jsonrpc":"2.0","id":1,"method":"ping"}}',
  '{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}',
  '{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}',
  "{'jsonrpc':'2.0','id':1,'method':'ping'}",
  '{"jsonrpc":"2.0","id":1,"method":"ping",}',
  '{"jsonrpc":"2.0","id":1,/* */"method":"ping"}',
  '{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
  '{"jsonrpc":"2.0","id":01,"method":"ping"}',
  '{"jsonrpc":"2.0","id":1,"method":"pi\nng"}',
  '{"jsonrpc":"2.0","id":1,"method":"\\x70ing"}',
  Buffer.from('{"jsonrpc":"2.0","id":1,"method":"p\xff"}', 'latin1'),
  Buffer.from('\ufeff{"jsonrpc":"2.0","id":1,"method":"ping"}'),
  Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}', 'utf16le'),
  'undefined',
  ' ',
  deep(200_000),
];

const NOT_A_MESSAGE: readonly string[] = [
  'null',
  'true',
  '1',
  '"ping"',
  '{}',
  '[]',
  '{"jsonrpc":"1.0","id":1,"method":"ping"}',
  '{"jsonrpc":2.0,"id":1,"method":"ping"}',
  '{"id":1,"method":"ping"}',
  '{"jsonrpc":"2.0","id":null,"method":"ping"}',
  '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
  '{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
  '{"jsonrpc":"2.0","id":true,"method":"ping"}',
  '{"jsonrpc":"2.0","id":[1],"method":"ping"}',
  '{"jsonrpc":"2.0","id":{},"method":"ping"}',
  `{"jsonrpc":"2.0","id":"${'x'.repeat(1024 * 1024)}","method":"ping"}`,
  '{"jsonrpc":"2.0","id":1,"method":1}',
  '{"jsonrpc":"2.0","id":1,"method":null}',
  '{"jsonrpc":"2.0","id":1,"method":""}',
  '{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}',
  '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
  '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
  '{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","name":"b"}}',
  '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
  '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
];

test('jsonrpc: invalid JSON is 400 and -32700, an invalid message 400 and -32600; neither runs', async () => {
  const ran = rig.core.ran.length;
  for (const [bodies, code] of [
    [NOT_JSON, -32700],
    [NOT_A_MESSAGE, -32600],
  ] as const) {
    for (const body of bodies) {
      const what = body.toString().slice(0, 80);
      const reply = await rig.post(body, session);
      assert.equal(reply.status, 400, what);
      assert.equal(reply.json.jsonrpc, '2.0', what);
      assert.equal(reply.json.error.code, code, what);
    }
  }
  const positional = await rig.post('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', session);
  assert.deepEqual([positional.status, positional.json.error.code], [200, -32602]);
  assert.equal(rig.core.ran.length, ran);
  await alive();
});

test('jsonrpc: unusual but valid messages pass unchanged', async () => {
  const odd = [
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{${keys}}}}`,
    '{"params":{"arguments":{"__proto__":{"a":1},"constructor":1}},"method":"tools/call","id":1,"jsonrpc":"2.0"}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":"\\ud800"}}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":1E400,"b":-0,"c":1.0}}}',
    '\r\n\t {"jsonrpc" : "2.0", "id" : 1, "method" : "tools\\/call"}\n',
  ];
  rig.core.on('tools/call', (exchange) => ok(exchange, '{}'));
  for (const body of odd) {
    const reply = await rig.post(body, session);
    assert.equal(reply.status, 200, body.slice(0, 60));
    assert.equal(rig.core.ran.at(-1)?.request.bytes.toString(), body);
  }
  assert.equal(({} as Record<string, unknown>)['a'], undefined);
});

test('mcp: a request that spoofs, injects or exceeds limits is refused or has no effect', async () => {
  const good = stateless('tools/call', { name: 't' });
  const versioned = (text: string) => good.body.replace('"2026-07-28"', text);
  const cases: [string, string, Record<string, string>, number][] = [
    ['version is a number', versioned('20260728'), good.headers, 400],
    ['version is null', versioned('null'), good.headers, 400],
    ['version is an object', versioned('{}'), good.headers, 400],
    ['capabilities are an array', good.body.replace('Capabilities":{}', 'Capabilities":[]'), good.headers, 400],
    ['info is a string', good.body.replace('{"name":"test","version":"1"}', '"me"'), good.headers, 400],
    ['meta twice', good.body.replace('"_meta":', '"_meta":{},"_meta":'), good.headers, 400],
    ['method from the prototype', stateless('__proto__').body, stateless('__proto__').headers, 404],
    ['method constructor', stateless('constructor').body, stateless('constructor').headers, 404],
    ['two names in one header', good.body, { ...good.headers, 'mcp-name': 't, t' }, 400],
    ['sentinel with spaces', good.body, { ...good.headers, 'mcp-name': '=?base64? dA== ?=' }, 400],
    ['sentinel in upper case', good.body, { ...good.headers, 'mcp-name': '=?BASE64?dA==?=' }, 400],
  ];
  for (const [what, body, headers, status] of cases) {
    assert.equal((await rig.post(body, { ...ADA, ...headers })).status, status, what);
  }
  const spoof = good.body.replace(
    '"_meta":{',
    '"_meta":{"principal":"agent:ada","io.modelcontextprotocol/principal":"x",',
  );
  await rig.post(spoof, { ...BOB, ...good.headers, 'x-agent-name': 'ada' });
  assert.equal(rig.core.ran.at(-1)?.client.principal.id, 'agent:bob');
  await alive();
});

test('check:E3 proto:S1 only the authorization header counts as a credential, on every path', async () => {
  const body = call(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} });
  const wrong: Record<string, string>[] = [
    {},
    { authorization: 'Bearer' },
    { authorization: 'Bearer key-of-no-agent' },
    { authorization: 'Basic a2V5LW9mLWFkYQ==' },
    { authorization: 'key-of-ada' },
    { cookie: 'authorization=Bearer key-of-ada; key=key-of-ada' },
    { 'x-agent-name': 'ada', 'x-forwarded-user': 'ada', 'x-api-key': 'key-of-ada' },
  ];
  const paths = ['/mcp', '/servers/files/mcp', '/message?sessionId=1', '/mcp?key=key-of-ada&access_token=key-of-ada'];
  for (const headers of wrong) {
    for (const path of paths) {
      const reply = await rig.post(body, headers, path);
      assert.equal(reply.status, 401, `${path} ${JSON.stringify(headers)}`);
      assert.equal(reply.headers['www-authenticate'], 'Bearer realm="trunkline"');
    }
    for (const [path, method] of [
      ['/mcp', 'GET'],
      ['/mcp', 'DELETE'],
      ['/sse', 'GET'],
    ] as const) {
      assert.equal(
        (await send(rig.url(path), method, { ...session, authorization: '', ...headers })).status,
        401,
        path,
      );
    }
  }
});

test('check:E3 an agent sees its servers, and others do not exist for it', async () => {
  const body = call(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} });
  const foreign = await rig.post(body, BOB, '/servers/memory/mcp');
  const missing = await rig.post(body, BOB, '/servers/nowhere/mcp');
  assert.equal(foreign.status, 404);
  assert.equal(foreign.text, missing.text);
  assert.equal((await rig.post(body, BOB, '/servers/files/mcp')).status, 200);
  assert.equal(
    (
      await rig.post(
        stateless('tools/list').body,
        { ...BOB, ...stateless('tools/list').headers },
        '/servers/memory/mcp',
      )
    ).status,
    404,
  );
  const names = ['memory%00', 'memory/', '__proto__', 'MEMORY', 'memory%2fmcp'];
  for (const name of names) {
    const { status } = await rig.post(body, ADA, `/servers/${name}/mcp`);
    assert.ok([400, 404].includes(status), `${name}: ${status}`);
  }
});

test('proto:S1 legacy: a stolen session id has no value for another caller', async () => {
  const { 'mcp-session-id': id, 'mcp-protocol-version': version } = session;
  const stolen = { ...BOB, 'mcp-session-id': id!, 'mcp-protocol-version': version! };
  const stream = await rig.listen(session);
  const first = await stream.next();
  assert.equal((await rig.post(call(1, 'tools/list'), stolen)).status, 404);
  assert.equal((await send(rig.url(), 'GET', { ...stolen, accept: 'text/event-stream' })).status, 404);
  const resume = { ...stolen, accept: 'text/event-stream', 'last-event-id': first!.id! };
  assert.equal((await send(rig.url(), 'GET', resume)).status, 404);
  assert.equal((await send(rig.url(), 'DELETE', stolen)).status, 404);
  assert.equal((await rig.post('{"jsonrpc":"2.0","id":"x","result":{}}', stolen)).status, 404);
  await alive();
  stream.drop();
});

test('proto:S1 S2.38 a session continues after a restart, only for its owner', async () => {
  const state = new StateFile({ path: ':memory:', clock: systemClock, logger: Logger.silent() });
  const options = { state, agents: { ada: null, bob: null } };
  try {
    const first = await DownstreamRig.start(options);
    const headers = await first.session({ headers: ADA, revision: '2025-06-18', capabilities: { roots: {} } });
    const other = await first.session({ headers: ADA });
    await first.close();
    const second = await DownstreamRig.start(options);
    try {
      const [thief, owner] = await Promise.all([
        second.post(call(1, 'tools/list'), { ...headers, ...BOB }),
        second.post(call(1, 'tools/list'), headers),
      ]);
      assert.equal(thief.status, 404);
      assert.equal(owner.status, 200);
      assert.equal(second.core.ran.at(-1)?.client.revision, '2025-06-18');
      assert.equal(second.core.ran.at(-1)?.client.capabilities, '{"roots":{}}');
      assert.equal((await send(second.url(), 'DELETE', other)).status, 204);
      assert.equal((await second.post(call(1, 'ping'), other)).status, 404);
    } finally {
      await second.close();
    }
  } finally {
    state.close();
  }
});

test('fault:F19 legacy: sessions opened and abandoned are refused above the limit, and cost no server anything', async () => {
  const small = await DownstreamRig.start({ sessions: { max: 50, maxPerPrincipal: 50 } });
  try {
    const body = call(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} });
    const replies = await Promise.all(Array.from({ length: 200 }, () => small.post(body)));
    const refused = replies.filter(({ status }) => status === 429);
    assert.equal(replies.filter(({ status }) => status === 200).length, 50);
    assert.equal(refused.length, 150);
    assert.equal(refused[0]!.json.error.code, 53004);
    assert.ok(Number(refused[0]!.headers['retry-after']) > 0);
    assert.equal(small.core.ran.length, 0);
  } finally {
    await small.close();
  }
});

test('check:E3 removed rights end the sessions and streams that were opened with them', async () => {
  const servers = ['memory', 'files'];
  const other = await DownstreamRig.start({ servers, agents: { ada: null, bob: servers, eve: null } });
  try {
    other.core.on('subscriptions/listen', (exchange) => {
      exchange.emit(notification('notifications/subscriptions/acknowledged', '{}', 'stateless'));
      return new Promise(() => {});
    });
    const eve = await other.listen(await other.session({ headers: { authorization: 'Bearer key-of-eve' } }));
    const path = '/servers/memory/mcp';
    const one = await other.session({ headers: BOB, path });
    const all = await other.session({ headers: BOB });
    const ada = await other.session({ headers: ADA });
    const listening = stateless('subscriptions/listen', { notifications: {} });
    const bobListens = await other.stream(listening.body, { ...listening.headers, ...BOB });
    const adaListens = await other.stream(listening.body, { ...listening.headers, ...ADA });
    for (const stream of [eve, bobListens, adaListens]) await stream.next();
    other.reload({ ada: null, bob: ['files'] });
    assert.equal(await eve.next(), null);
    assert.equal((await bobListens.message()).result.resultType, 'complete');
    assert.equal((await other.post(call(1, 'ping'), one, path)).status, 404);
    assert.equal((await other.post(call(1, 'ping'), all)).status, 200);
    assert.equal((await other.post(call(1, 'ping'), ada)).status, 200);
    const listed = [...other.downstream.sessionsFor('memory')].map(({ sessionId }) => sessionId);
    assert.deepEqual(listed, [other.downstream.sessions.find(ada['mcp-session-id']!)?.id]);
    assert.equal(other.downstream.inFlight, 1, 'the one stream whose caller kept all rights');
    adaListens.drop();
  } finally {
    await other.close();
  }
});
