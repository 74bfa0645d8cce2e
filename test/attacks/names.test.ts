import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { Json, Reply } from '../support/raw-http.ts';
import { Arena, type Headers, modern, rpc } from './arena.ts';

/** Group mcp, second half: names, URIs, cursors, seals and everything else inside `params`. */

let arena: Arena;
let sessions: Readonly<Record<string, Headers>>;
let tripped = 0;
const tripwire = createServer((_request, response) => {
  tripped++;
  response.end('tripwire');
});
before(async () => {
  await new Promise<void>((done) => tripwire.listen(0, '127.0.0.1', done));
  arena = await Arena.start();
  sessions = { '/mcp': arena.victim, '/servers/probe/mcp': await arena.session({ path: '/servers/probe/mcp' }) };
});
after(async () => {
  await arena.stop();
  tripwire.close();
});

const MARK = 'must-not-run-2323';

/** The request in both eras, on the aggregate and on the probe's own endpoint. */
async function everywhere(method: string, params: Json, check: (reply: Reply, what: string) => void): Promise<void> {
  for (const [path, session] of Object.entries(sessions)) {
    const what = `${path} ${method} ${JSON.stringify(params)?.slice(0, 80)}`;
    const { body, headers } = modern(method, params, 'the-id');
    const replies = [
      await arena.post(body, headers, path),
      await arena.post(rpc(method, params, 'the-id'), session, path),
    ];
    for (const reply of replies) {
      const all = `${what}: ${reply.status} ${reply.text.slice(0, 300)}`;
      assert.equal(reply.json?.id, 'the-id', all);
      assert.doesNotMatch(reply.text, /\bat \S+ \(|node:internal|root:x:|LEDGER|\.ts:\d/, all);
      check(reply, all);
    }
  }
}

/** An error of the gateway or the server, or a tool's failure that a model can read; never a success. */
function assertRefused(reply: Reply, what: string, codes: readonly number[] = [-32602, -32601, -32002, -32600]): void {
  assert.ok([200, 400, 404].includes(reply.status), what);
  if (reply.json.error !== undefined) assert.ok(codes.includes(reply.json.error.code), what);
  else assert.equal(reply.json.result.isError, true, what);
}

const TOOL_NAMES = [
  '',
  ' ',
  '__',
  '____',
  '__proto__',
  'constructor',
  'toString',
  '__echo',
  'probe__',
  'probe__nope',
].concat([
  'PROBE__echo',
  'probe__ECHO',
  'probe__echo ',
  'probe__echo\u0000',
  'probe__echo\r\nX-Injected: 1',
  'probe__../../etc/passwd',
  "probe__echo'; DROP TABLE tools;--",
  '${jndi:ldap://127.0.0.1/a}',
  '{{7*7}}',
  'probe__\u202eohce',
  'probe__ｅｃｈｏ',
  'prоbe__echo',
  '__proto____echo',
  'constructor__echo',
  'nobody__echo',
  '$(touch /tmp/x)',
  `probe__${'x'.repeat(10_240)}`,
  'x'.repeat(10_240),
]);

test('mcp: unknown names of tools are refused with a text of bounded length, and nothing runs', async () => {
  const before = arena.reached().length;
  for (const name of TOOL_NAMES.filter((each) => each !== '__proto__' && each.length < 8_000)) {
    await everywhere('tools/call', { name, arguments: { mark: MARK } }, (reply, what) => {
      if (reply.json.result?.content?.[0]?.text?.includes(MARK)) assert.fail(what);
    });
  }
  assert.ok(before <= arena.reached().length);
  for (const [path, session] of Object.entries(sessions)) {
    for (const name of TOOL_NAMES.filter((each) => each.length > 8_000)) {
      const reply = await arena.post(rpc('tools/call', { name, arguments: { mark: MARK } }), session, path);
      if (path === '/mcp') {
        assertRefused(reply, `${path} ${name.slice(0, 20)}`);
        assert.ok(reply.text.length < 2_000, `${path}: ${reply.text.length} bytes of echo`);
      }
    }
  }
  await arena.alive();
});

test('mcp: on the aggregate only listed names reach a server', async () => {
  for (const name of TOOL_NAMES) {
    const reply = await arena.post(rpc('tools/call', { name, arguments: { mark: 'aggregate-only' } }), arena.victim);
    assertRefused(reply, `${name}: ${reply.text}`);
  }
  assert.ok(!arena.reached().includes('aggregate-only'));
  const odd = await arena.post(rpc('tools/call', { name: 'probe____proto__', arguments: { a: 1 } }), arena.victim);
  assert.equal(odd.json.result.content[0].text, '{"a":1}', 'a tool that is really called __proto__ is a tool');
  await arena.alive();
});

test('S2.3 S2.4 check:D1 mcp: a name of one server never reaches another, whatever names that one lists', async () => {
  // `never` does not start, `off` is disabled, `gone` is missing, and `mcp` is a server although clients use it as prefix.
  const idle = { command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], timeoutMs: 1_000 };
  for (const victim of ['never', 'off', 'gone', 'mcp']) {
    const other = await Arena.start({
      probeEnv: { SPOOFED: victim },
      servers: {
        ...(victim === 'gone' ? {} : { [victim]: { ...idle, ...(victim === 'off' ? { disabled: true } : {}) } }),
      },
      readyOnly: ['probe', 'remote'],
    });
    try {
      for (const name of [`${victim}__pay`, `mcp__${victim}__pay`, `${victim}__greet`]) {
        for (const [method, params] of [
          ['tools/call', { name, arguments: { mark: MARK } }],
          ['prompts/get', { name, arguments: { mark: MARK } }],
          ['completion/complete', { ref: { type: 'ref/prompt', name }, argument: { name: 'mark', value: MARK } }],
        ] as const) {
          const { body, headers } = modern(method, params);
          await other.post(body, headers);
          await other.post(rpc(method, params), other.victim);
        }
      }
      for (const uri of [`trunkline://${victim}/doc`, `trunkline://${victim}/${MARK}`, `trunkline://${victim}`]) {
        for (const method of ['resources/read', 'resources/subscribe']) {
          await other.post(rpc(method, { uri }), other.victim);
        }
        const ref = { type: 'ref/resource', uri };
        const argument = { name: 'path', value: MARK };
        await other.post(rpc('completion/complete', { ref, argument }), other.victim);
      }
      assert.doesNotMatch(other.reached(), new RegExp(`${MARK}|"uri":"trunkline:`), victim);
      // Under the name of its own server each of them is reached.
      const { body, headers } = modern('tools/call', { name: `probe__${victim}__pay`, arguments: { a: 1 } });
      assert.equal((await other.post(body, headers)).json.result.content[0].text, '{"a":1}');
      const uri = `trunkline://probe/trunkline://${victim}/doc`;
      const read = await other.post(rpc('resources/read', { uri }), other.victim);
      assert.equal(read.json.result?.contents[0].uri, uri, read.text);
    } finally {
      await other.stop();
    }
  }
});

test('mcp: names and arguments of another type are -32602', async () => {
  for (const name of [undefined, null, 1, true, [], {}, ['probe__echo']]) {
    await everywhere('tools/call', { name, arguments: {} }, (reply, what) => {
      assert.equal(reply.json.error?.code, -32602, what);
    });
  }
  for (const args of [[], 'x', 1, true]) {
    for (const [path, name] of [
      ['/mcp', 'probe__echo'],
      ['/servers/probe/mcp', 'echo'],
    ] as const) {
      const { body, headers } = modern('tools/call', { name, arguments: args });
      assert.equal((await arena.post(body, headers, path)).json.error.code, -32602);
      const sent = await arena.post(rpc('tools/call', { name, arguments: args }), sessions[path]);
      assert.equal(sent.json.error.code, -32602, sent.text);
    }
  }
  for (const [method, params] of [
    ['resources/read', { uri: 1 }],
    ['resources/read', {}],
    ['prompts/get', { name: {} }],
    ['prompts/get', {}],
    ['completion/complete', { ref: 'x' }],
    ['completion/complete', { ref: { type: 'ref/none', name: 'x' }, argument: {} }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: '__proto__' }, argument: { name: 'a', value: '' } }],
  ] as const) {
    await everywhere(method, params, (reply, what) => {
      if (what.startsWith('/mcp')) assertRefused(reply, what, [-32602]);
    });
  }
  await arena.alive();
});

test('mcp: URIs of files, processes, metadata services and this machine are never fetched', async () => {
  const { port } = tripwire.address() as AddressInfo;
  const control = arena.gateway.controlUrl;
  const uris = ['file:///etc/passwd', 'file:///proc/self/environ', 'file://localhost/etc/passwd', '/etc/passwd'].concat(
    [
      '../../../../etc/passwd',
      'http://169.254.169.254/latest/meta-data/',
      `http://127.0.0.1:${port}/`,
      `http://[::1]:${port}/`,
      `http://2130706433:${port}/`,
      `${control}/metrics`,
      'data:text/plain,hello',
      'javascript:alert(1)',
      'jar:file:///x!/y',
      'probe:/doc',
      'PROBE://doc/../../etc/passwd',
      'trunkline://probe/file:///etc/passwd',
      '__proto__',
      '',
      ' ',
      'probe\u0000://doc',
    ],
  );
  for (const uri of uris) {
    for (const method of ['resources/read', 'resources/subscribe']) {
      await everywhere(method, { uri }, (reply, what) => {
        if (method === 'resources/read') assertRefused(reply, what);
        assert.doesNotMatch(reply.text, /tripwire|# HELP|PATH=/, what);
      });
    }
  }
  assert.equal(tripped, 0);
  await arena.alive();
});

test('mcp: URIs made to slow the matching down are answered in time', async () => {
  const slow = [
    `probe://items/${'a'.repeat(50_000)}`,
    `probe://items/${'a/'.repeat(4_000)}end`,
    `probe://items/${'/end'.repeat(2_000)}!`,
    `probe://items/${'%2e'.repeat(2_700)}`,
    `probe://items/${'{a}'.repeat(2_700)}`,
    `${'probe://items/'.repeat(500)}`,
    'a'.repeat(1_000_000),
  ];
  for (const uri of slow) {
    for (const [path, session] of Object.entries(sessions)) {
      const reply = await arena.post(rpc('resources/read', { uri }), session, path);
      assert.ok([200, 400].includes(reply.status));
      if (path === '/mcp' && reply.json.error !== undefined) {
        assert.ok(reply.text.length < 20_000 || uri.startsWith('probe:'), `${reply.text.length} bytes of echo`);
      }
    }
  }
  await arena.alive();
});

test('mcp: forged cursors, task ids and request states are -32602, and nothing runs', async () => {
  const forged = [
    '',
    'x',
    'AAAA',
    'eyJwYWdlIjoxfQ==',
    '__proto__',
    '../1',
    '-1',
    'a'.repeat(10_000),
    '\u0000',
    '999999999',
  ];
  for (const cursor of [...forged, 1, {}, [], true]) {
    for (const method of ['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list']) {
      const { body, headers } = modern(method, { cursor });
      for (const reply of [await arena.post(body, headers), await arena.post(rpc(method, { cursor }), arena.victim)]) {
        const what = `${method} ${JSON.stringify(cursor).slice(0, 40)}: ${reply.text.slice(0, 200)}`;
        assert.equal(reply.json.error?.code, -32602, what);
        assert.ok(reply.text.length < 1_000, what);
      }
    }
  }
  for (const taskId of forged) {
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
      const stateful = await arena.post(rpc(method, { taskId }), arena.victim);
      assertRefused(stateful, `${method} ${taskId.slice(0, 20)}: ${stateful.text.slice(0, 200)}`);
    }
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { body, headers } = modern(method, { taskId });
      if (Buffer.byteLength(taskId) > 8_000) continue;
      const reply = await arena.post(body, headers);
      assertRefused(
        reply,
        `${method} ${taskId.slice(0, 20)}: ${reply.text.slice(0, 200)}`,
        [-32602, -32601, -32020, -32021],
      );
    }
  }
  await arena.alive();
});

test('mcp: a _meta that claims too much gives no right and is not repeated', async () => {
  const spoofed = {
    'trunkline/principal': 'agent:root',
    'trunkline/error': { code: 'INTERNAL' },
    'io.modelcontextprotocol/principal': 'root',
    'io.modelcontextprotocol/related-task': { taskId: 'AAAA' },
    'io.modelcontextprotocol/serverInfo': { name: 'spoofed-server' },
    progressToken: { a: 1 },
    __proto__x: { polluted: true },
  };
  for (const method of ['tools/list', 'server/discover', 'resources/list']) {
    const { body, headers } = modern(method, {}, 1, spoofed);
    const reply = await arena.post(body, headers);
    assert.equal(reply.status, 200, reply.text);
    assert.doesNotMatch(reply.text, /spoofed-server|agent:root|polluted/);
  }
  await arena.alive();
});

test('mcp: no text of a client becomes a line of the log, or makes one long', async () => {
  const line = '\n{"level":"error","event":"forged_entry"}\n\u001b[31mred\u2028';
  const info = { name: `evil${line}`, version: line, title: line };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: info };
  await arena.post(rpc('initialize', params), {
    'user-agent': 'x\tforged_entry',
    'x-request-id': '{"event":"forged_entry"}',
  });
  const names = {
    name: `probe__${line}`,
    uri: `probe://${line}`,
    taskId: line,
    cursor: line,
    level: line,
    ref: { type: line },
  };
  for (const method of ['tools/call', 'resources/read', 'prompts/get', 'tasks/get', 'logging/setLevel', `x${line}`]) {
    await arena.post(rpc(method, names), arena.victim);
    const { body, headers } = modern(method, names, line, { 'io.modelcontextprotocol/clientInfo': info });
    await arena.post(body, { ...headers, 'mcp-method': 'x' });
  }
  const long = `probe://${'x'.repeat(50_000)}`;
  for (const method of ['tools/call', 'resources/read']) {
    await arena.post(rpc(method, { name: long, uri: long }), arena.victim);
  }
  await arena.raw('GET /%0a{"event":"forged_entry"} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
  await arena.alive();
  for (const logged of arena.gateway.stderr.split('\n').slice(1, -1)) {
    const entry = JSON.parse(logged) as { event: string };
    assert.notEqual(entry.event, 'forged_entry');
    assert.doesNotMatch(logged, /[\u0000-\u001f]/);
    assert.ok(logged.length < 4_096, `${logged.length} characters: ${logged.slice(0, 200)}`);
  }
});
