import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { EventReader, Json } from '../support/raw-http.ts';
import { Arena, type Headers, META, modern, rpc } from './arena.ts';

/** Group jsonrpc: every body on every way in, of both eras. None of it may reach a server. */

let arena: Arena;
let stream: EventReader;
let ways: readonly Way[];
const MARK = 'must-not-run-0815';

interface Way {
  readonly name: string;
  readonly path: string;
  readonly headers: Headers;
}

before(async () => {
  arena = await Arena.start();
  const own = await arena.session({ path: '/servers/probe/mcp' });
  stream = await arena.events('/sse');
  const endpoint = (await stream.next())!.data;
  const call = modern('tools/call', { name: 'probe__echo' });
  ways = [
    { name: 'session on /mcp', path: '/mcp', headers: await arena.session() },
    { name: 'session on a server', path: '/servers/probe/mcp', headers: own },
    { name: 'stateless on /mcp', path: '/mcp', headers: call.headers },
    { name: 'stateless on a server', path: '/servers/remote/mcp', headers: call.headers },
    { name: '2024-11-05', path: endpoint, headers: {} },
  ];
});
after(() => arena.stop());

const call = `"method":"tools/call","params":{"name":"probe__echo","arguments":{"mark":"${MARK}"},"_meta":${JSON.stringify(META)}}`;
const good = `{"jsonrpc":"2.0","id":1,${call}}`;
const nest = (open: string, close: string, n: number) =>
  good.replace(`"${MARK}"`, `"${MARK}","deep":${open.repeat(n)}1${close.repeat(n)}`);

/** Bodies that no JSON parser may accept. */
const PARSE: Readonly<Record<string, string | Buffer>> = {
  'cut in the middle': good.slice(0, -20),
  'without its last brace': good.slice(0, -1),
  'one brace too many': `${good}}`,
  'two documents': `${good}${good}`,
  'two documents on two lines': `${good}\n${good}`,
  'a document and a comma': `${good},`,
  'single quotes': good.replaceAll('"', "'"),
  'bare keys': good.replace('"jsonrpc"', 'jsonrpc'),
  'a trailing comma': `${good.slice(0, -1)},}`,
  'a comment': good.replace('"id"', '/* */"id"'),
  'a line comment': `// x\n${good}`,
  NaN: good.replace('"id":1', '"id":NaN'),
  Infinity: good.replace(`"${MARK}"`, `"${MARK}","x":Infinity`),
  'a leading zero': good.replace('"id":1', '"id":01'),
  'a leading plus': good.replace('"id":1', '"id":+1'),
  'a bare point': good.replace('"id":1', '"id":1.'),
  'a hex number': good.replace('"id":1', '"id":0x1'),
  'a line break in a string': good.replace(MARK, `${MARK}\n{"jsonrpc":"2.0","id":9,"method":"ping"}`),
  'a NUL in a string': good.replace(MARK, `${MARK}\0`),
  'a NUL after it': `${good}\0`,
  'a hex escape': good.replace('tools', '\\x74ools'),
  'a broken escape': good.replace('tools', '\\u00zzools'),
  'invalid UTF-8': Buffer.from(good.replace(MARK, `${MARK}\xff`), 'latin1'),
  'overlong UTF-8': Buffer.from(good.replace(MARK, `${MARK}\xc0\xaf`), 'latin1'),
  'a surrogate in UTF-8': Buffer.from(good.replace(MARK, `${MARK}\xed\xa0\x80`), 'latin1'),
  'UTF-8 cut off': Buffer.from(good.replace(MARK, `${MARK}\xe2\x82`), 'latin1'),
  'above U+10FFFF': Buffer.from(good.replace(MARK, `${MARK}\xf5\x80\x80\x80`), 'latin1'),
  'a BOM': `\ufeff${good}`,
  'UTF-16': Buffer.from(good, 'utf16le'),
  'UTF-16 with BOM': Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(good, 'utf16le')]),
  undefined: 'undefined',
  'white space': ' \n ',
  'a word': 'true false',
  'XML-RPC': '<?xml version="1.0"?><methodCall/>',
  'form data': 'jsonrpc=2.0&id=1&method=ping',
  'no-break space': `\u00a0${good}`,
  'an xssi prefix': `)]}'\n${good}`,
  'objects 200 000 deep': nest('{"a":', '}', 200_000),
  'arrays 200 000 deep': nest('[', ']', 200_000),
  'arrays never closed': '['.repeat(200_000),
};

/** JSON, but no request. */
const REQUEST: Readonly<Record<string, string>> = {
  null: 'null',
  true: 'true',
  'a number': '1',
  'a string': '"tools/call"',
  '{}': '{}',
  '1.0': good.replace('"2.0"', '"1.0"'),
  'a number for jsonrpc': good.replace('"2.0"', '2.0'),
  'no jsonrpc': good.replace('"jsonrpc":"2.0",', ''),
  'an array for jsonrpc': good.replace('"2.0"', '["2.0"]'),
  'no id': good.replace('"id":1,', ''),
  'id null': good.replace('"id":1', '"id":null'),
  'id true': good.replace('"id":1', '"id":true'),
  'id an array': good.replace('"id":1', '"id":[1]'),
  'id an object': good.replace('"id":1', '"id":{}'),
  'id 1.5': good.replace('"id":1', '"id":1.5'),
  'id 1e400': good.replace('"id":1', '"id":1e400'),
  'id of 1 MiB': good.replace('"id":1', `"id":"${'i'.repeat(1024 * 1024)}"`),
  'method a number': good.replace('"tools/call"', '7'),
  'method null': good.replace('"tools/call"', 'null'),
  'method an array': good.replace('"tools/call"', '["tools/call"]'),
  'method empty': good.replace('"tools/call"', '""'),
  'params a string': '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"probe__echo"}',
  'params null': '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}',
  'id twice': good.replace('"id":1', '"id":1,"id":2'),
  'method twice': good.replace('"method"', '"method":"ping","method"'),
  'method twice, escaped': good.replace('"method"', '"method":"ping","\\u006dethod"'),
  'params twice': good.replace('"params"', '"params":{},"params"'),
  'Name beside name': good.replace('"name":', '"Name":"probe__fail","name":'),
  'name in capitals': good.replace('"name":', '"name":"probe__echo","NAME":'),
  'name with an escaped capital': good.replace('"name":', '"name":"probe__echo","\\u004eame":'),
  argumentſ: good.replace('"arguments":', '"arguments":{},"argumentſ":'),
  'Params after params': `${good.slice(0, -1)},"Params":{"name":"probe__fail"}}`,
  'paramſ after params': `${good.slice(0, -1)},"paramſ":{"name":"probe__fail"}}`,
  'ID beside id': `${good.slice(0, -1)},"ID":7}`,
  'Method beside method': `${good.slice(0, -1)},"METHOD":"ping"}`,
  'a key of _meta in another case': good.replace('protocolVersion', 'ProtocolVersion'),
  'ProgressToken in _meta': good.replace('"_meta":{', '"_meta":{"ProgressToken":1,'),
  'name twice': good.replace('"name":', '"name":"remote__echo","name":'),
  'jsonrpc twice': good.replace('"jsonrpc":"2.0"', '"jsonrpc":"1.0","jsonrpc":"2.0"'),
  'method and result': `${good.slice(0, -1)},"result":{}}`,
  'result and error': '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
  'an id alone': '{"jsonrpc":"2.0","id":1}',
  'an error that is none': '{"jsonrpc":"2.0","id":1,"error":"x"}',
};

test('jsonrpc: invalid JSON is 400 with -32700, on every way in', () => each(PARSE, -32700));
test('check:E1 jsonrpc: an invalid request is 400 with -32600, on every way in', () => each(REQUEST, -32600));

test('S2.1 jsonrpc: a tools/call with bad params is -32602 under its id, on every way in, and nothing runs', async () => {
  const name = '"name":"probe__echo"';
  const meta = `"_meta":${JSON.stringify(META)}`;
  for (const way of ways) {
    const own = way.path.startsWith('/servers/') ? name.replace('probe__', '') : name;
    const mark = `"mark":"${MARK}"`;
    for (const params of [
      `["probe__echo",{${mark}}]`,
      `{"name":5,"arguments":{${mark}},${meta}}`,
      ...[`["${MARK}"]`, `"${MARK}"`, '1', 'true'].map((value) => `{${own},"arguments":${value},${meta}}`),
    ]) {
      const body = `{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":${params}}`;
      const reply = await arena.post(body, way.headers, way.path);
      const what = `${way.name} ${params}: ${reply.status} ${reply.text}`;
      // A client of 2024-11-05 reads the answer to its request from its stream, and may give up at an HTTP error.
      const streamed = way.name === '2024-11-05';
      const answer = streamed ? JSON.parse((await stream.next())!.data) : reply.json;
      assert.equal(answer?.error?.code, -32602, what);
      assert.equal(answer.id, 'bad', what);
      assert.equal(reply.status, streamed ? 202 : 'mcp-session-id' in way.headers ? 200 : 400, what);
    }
  }
  assert.ok(!arena.reached().includes(MARK));
  await arena.alive();
});

test('jsonrpc: a method named like a member of every object is unknown with any params; the gateway stays up', async () => {
  for (const method of ['constructor', 'hasOwnProperty', 'valueOf', 'toString', '__proto__']) {
    for (const params of [{ a: 1 }, { ab: 1, name: 'x', uri: 'x:y' }]) {
      for (const { path, headers, name } of ways) {
        const isModern = name.startsWith('stateless');
        const sent = isModern ? modern(method, params, 'odd') : { headers, body: rpc(method, params, 'odd') };
        const reply = await arena.post(sent.body, sent.headers, path);
        const answer = name === '2024-11-05' ? JSON.parse((await stream.next())!.data) : reply.json;
        assert.deepEqual([answer?.error?.code, answer?.id], [-32601, 'odd'], `${name} ${method}: ${reply.text}`);
      }
    }
  }
  await arena.alive();
});

test('jsonrpc: a method that no HTTP header can carry is refused alone, and its server stays connected', async () => {
  const path = '/servers/remote/mcp';
  const session = await arena.session({ path });
  for (const method of ['a☃', 'a\n', 'a\r\nx: y', 'a\0', 'a\u007f', '\ud800']) {
    for (let i = 0; i < 4; i++) {
      const { json, text } = await arena.post(rpc(method, { mark: MARK }, 'odd'), session, path);
      assert.deepEqual([json?.error?.code, json?.id], [-32600, 'odd'], text);
      assert.match(json.error.message, /Mcp-Method has characters HTTP does not allow/);
    }
  }
  const { body, headers } = modern('tools/call', { name: 'echo' });
  assert.equal((await arena.post(body, headers, path)).json?.error, undefined);
  const { servers } = await arena.gateway.control<{ servers: Json[] }>('/api/v1/servers');
  const { state, health, restarts } = servers.find(({ name }) => name === 'remote');
  assert.deepEqual([state, health, restarts], ['connected', 'healthy', 0]);
  assert.ok(!arena.reached().includes(MARK));
  await arena.alive();
});

test('jsonrpc: an unknown method without an id is taken for a notification and reaches no server', async () => {
  const body = `{"jsonrpc":"2.0","method":"acme/run","params":{"mark":"${MARK}"}}`;
  for (const { path, headers, name } of ways.slice(0, 2)) {
    const echo = rpc('tools/call', { name: path === '/mcp' ? 'probe__echo' : 'echo' });
    // After the first call the session owns a connection. When the second is answered, messages sent before it have arrived.
    for (const [sent, status] of [
      [echo, 200],
      [body, 202],
      [echo, 200],
    ] as const) {
      const reply = await arena.post(sent, headers, path);
      assert.equal(reply.status, status, `${name}: ${reply.text}`);
    }
  }
  assert.ok(!arena.reached().includes(MARK));
});

async function each(attacks: Readonly<Record<string, string | Buffer>>, code: number): Promise<void> {
  for (const way of ways) {
    for (const [name, body] of Object.entries(attacks)) {
      const reply = await arena.post(body, way.headers, way.path);
      const what = `${way.name}, ${name}: ${reply.status} ${reply.text.slice(0, 200)}`;
      assert.equal(reply.status, 400, what);
      assert.equal(reply.json?.jsonrpc, '2.0', what);
      assert.equal(reply.json.error.code, code, what);
      assert.ok(reply.text.length < 600, `${what} echoes too much`);
    }
    await arena.alive(way.name);
  }
  assert.ok(!arena.reached().includes(MARK));
}

test('jsonrpc: batches where the revision has none', async () => {
  const batches = {
    two: `[${good},${good}]`,
    empty: '[]',
    '20 000': `[${Array(20_000).fill(good).join()}]`,
    nested: `[[${good}]]`,
  };
  const sse = await arena.events('/sse');
  const path = (await sse.next())!.data;
  await arena.post(rpc('initialize', { protocolVersion: '2025-06-18', capabilities: {} }), {}, path);
  await sse.message();
  for (const way of [...ways.slice(0, 4), { name: '2025-06-18 over HTTP+SSE', path, headers: {} }]) {
    for (const [name, body] of Object.entries(batches)) {
      const reply = await arena.post(body, way.headers, way.path);
      assert.equal(reply.status, 400, `${way.name} ${name} ${reply.text.slice(0, 200)}`);
      assert.equal(reply.json.error.code, -32600, `${way.name} ${name}`);
    }
  }
  sse.drop();
  const old = await arena.session({ revision: '2025-03-26' });
  for (const body of [batches['20 000'], batches.nested, batches.empty, '[1,2]', `[${good},]`, `[${good}`]) {
    const reply = await arena.post(body, old);
    assert.ok(
      [400, 413, 429].includes(reply.status),
      `${reply.status} ${body.slice(0, 40)} ${reply.text.slice(0, 100)}`,
    );
  }
  assert.ok(!arena.reached().includes(MARK));
  await arena.alive();
});

test('jsonrpc: unrequested answers are refused and reach no server', async () => {
  const answers = [
    `{"jsonrpc":"2.0","id":1,"result":{"mark":"${MARK}"}}`,
    `{"jsonrpc":"2.0","id":"s-1","result":{"mark":"${MARK}"}}`,
    `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"${MARK}"}}`,
  ];
  for (const way of ways) {
    for (const body of answers) {
      const reply = await arena.post(body, way.headers, way.path);
      assert.equal(reply.status, 400, `${way.name} ${reply.text}`);
      assert.ok(!reply.text.includes(MARK), way.name);
    }
  }
  assert.ok(!arena.reached().includes(MARK));
  await arena.alive();
});

test('jsonrpc: unusual but valid requests are answered under their id, to the digit, with their bytes', async () => {
  const ids = [
    '0',
    '-1',
    '9007199254740993',
    '123456789012345678901234567890',
    '""',
    '"\\ud800"',
    '"\\u0000"',
    '"__proto__"',
  ];
  ids.push('"💥"', '"a\\nb"', '"</script>"', `"${'i'.repeat(200)}"`);
  const session = ways[0]!;
  for (const id of ids) {
    const reply = await arena.post(rpc('ping').replace('"id":1', `"id":${id}`), session.headers);
    assert.equal(reply.status, 200, id);
    assert.ok(reply.text.includes(`"id":${id}`), `${id}: ${reply.text}`);
  }
  const many = Array.from({ length: 20_000 }, (_, i) => `"k${i}":${i}`).join();
  const args = [
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    '{"a":"\\ud800","b":"\\u0000","c":1E400,"d":-0,"e":1.0,"f":12345678901234567890}',
    `{${many}}`,
    '{"a":1,"a":2}',
    `{"text":"${'\\u000a'.repeat(10)}data: x\\n\\nevent: y"}`,
  ];
  for (const text of args) {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe__echo","arguments":${text}}}`;
    const reply = await arena.post(body, session.headers);
    assert.equal(reply.status, 200, text.slice(0, 60));
    assert.equal(reply.json.result.content[0].text, JSON.stringify(JSON.parse(text)), text.slice(0, 60));
  }
  const deep = `${'{"a":'.repeat(400)}1${'}'.repeat(400)}`;
  const reply = await arena.post(
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe__echo","arguments":${deep}}}`,
    session.headers,
  );
  assert.ok(reply.json.result?.content[0].text === deep || reply.status === 400, reply.text.slice(0, 200));
  await arena.alive();
});
