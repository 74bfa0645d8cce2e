import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Reply } from '../support/raw-http.ts';
import { Arena, type Headers, META, modern } from './arena.ts';

/** Group mcp, first half: the envelope of 2026-07-28, on the aggregate and on one server of each kind. */

let arena: Arena;
before(async () => {
  arena = await Arena.start();
});
after(() => arena.stop());

const MARK = 'must-not-run-4242';
const WAYS = [
  { path: '/mcp', tool: 'probe__echo' },
  { path: '/servers/probe/mcp', tool: 'echo' },
  { path: '/servers/remote/mcp', tool: 'echo' },
] as const;

interface Case {
  readonly what: string;
  readonly headers?: Headers;
  /** Headers left out. */
  readonly without?: readonly string[];
  readonly body?: (body: string) => string;
}

/** Runs each case of each way and expects this answer, under the request's id, with nothing run. */
async function refused(cases: readonly Case[], status: number, code: number, check = (_: Reply) => {}): Promise<void> {
  for (const { path, tool } of WAYS) {
    for (const { what, headers = {}, without = [], body = (text: string) => text } of cases) {
      const request = modern('tools/call', { name: tool, arguments: { mark: MARK } }, 'the-id');
      const all = { ...request.headers, ...headers };
      for (const name of without) delete (all as Record<string, string>)[name];
      const reply = await arena.post(body(request.body), all, path);
      const context = `${path} ${what}: ${reply.status} ${reply.text.slice(0, 300)}`;
      assert.equal(reply.status, status, context);
      assert.equal(reply.json.error.code, code, context);
      assert.equal(reply.json.id, 'the-id', context);
      assert.ok(reply.text.length < 1_000, `${context} echoes too much`);
      check(reply);
    }
    await arena.alive(path);
  }
  assert.ok(!arena.reached().includes(MARK));
}

const b64 = (text: string | Buffer) => Buffer.from(text).toString('base64');

test('mcp: headers that are missing, differ or are broken are 400 with -32020', () =>
  refused(
    [
      { what: 'no version', without: ['mcp-protocol-version'] },
      { what: 'no method', without: ['mcp-method'] },
      { what: 'no name', without: ['mcp-name'] },
      { what: 'none at all', without: ['mcp-protocol-version', 'mcp-method', 'mcp-name'] },
      { what: 'an older version', headers: { 'mcp-protocol-version': '2025-11-25' } },
      { what: 'a future version', headers: { 'mcp-protocol-version': '2027-01-01' } },
      { what: 'an empty version', headers: { 'mcp-protocol-version': '' } },
      { what: 'two versions in one', headers: { 'mcp-protocol-version': '2026-07-28, 2026-07-28' } },
      { what: 'another method', headers: { 'mcp-method': 'tools/list' } },
      { what: 'an empty method', headers: { 'mcp-method': '' } },
      { what: 'the method in capitals', headers: { 'mcp-method': 'TOOLS/CALL' } },
      { what: 'the method with a slash', headers: { 'mcp-method': 'tools/call/' } },
      { what: 'another name', headers: { 'mcp-name': 'remote__echo' } },
      { what: 'an empty name', headers: { 'mcp-name': '' } },
      { what: 'the name in capitals', headers: { 'mcp-name': 'ECHO' } },
      { what: 'the name encoded for a URL', headers: { 'mcp-name': '%65cho' } },
      { what: 'an open sentinel', headers: { 'mcp-name': '=?base64?ZWNobw==' } },
      { what: 'an empty sentinel', headers: { 'mcp-name': '=?base64??=' } },
      { what: 'no base64', headers: { 'mcp-name': '=?base64?!!!!?=' } },
      { what: 'base64 with blanks', headers: { 'mcp-name': '=?base64?ZWNo bw==?=' } },
      { what: 'base64url', headers: { 'mcp-name': '=?base64?_-__?=' } },
      { what: 'base64 cut off', headers: { 'mcp-name': '=?base64?ZWNobw?=' } },
      { what: 'base64 of no UTF-8', headers: { 'mcp-name': `=?base64?${b64(Buffer.from([0xff, 0xfe]))}?=` } },
      { what: 'a sentinel in capitals', headers: { 'mcp-name': `=?BASE64?${b64('echo')}?=` } },
      { what: 'quoted-printable', headers: { 'mcp-name': '=?utf-8?Q?echo?=' } },
      { what: 'a sentinel of something else', headers: { 'mcp-name': `=?base64?${b64('other')}?=` } },
      { what: 'a sentinel in a sentinel', headers: { 'mcp-name': `=?base64?${b64(`=?base64?${b64('echo')}?=`)}?=` } },
      { what: 'a name of 12 KiB', headers: { 'mcp-name': 'n'.repeat(12_288) } },
      { what: 'a sentinel of 12 KiB', headers: { 'mcp-name': `=?base64?${b64('n'.repeat(9_000))}?=` } },
    ],
    400,
    -32020,
  ));

test('mcp: a header of the gateway that comes twice is 400 with -32020, whatever the values', async () => {
  for (const { path, tool } of WAYS) {
    const { body, headers } = modern('tools/call', { name: tool, arguments: { mark: MARK } });
    for (const [twice, value] of Object.entries(headers)) {
      for (const other of [value, 'other', '']) {
        const lines = Object.entries({
          ...headers,
          'content-type': 'application/json',
          'content-length': String(body.length),
        })
          .map(([name, text]) => `${name}: ${text}\r\n`)
          .join('');
        const bytes = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines}${twice.toUpperCase()}: ${other}\r\n\r\n${body}`;
        const { statuses, text } = await arena.raw(bytes);
        assert.deepEqual(statuses, [400], `${path} ${twice}`);
        assert.ok(text.includes('"code":-32020'), `${path} ${twice}: ${text}`);
      }
    }
  }
  assert.ok(!arena.reached().includes(MARK));
});

test('mcp: unsupported versions are 400 with -32022, which lists the supported ones', async () => {
  for (const version of [
    '2099-01-01',
    '1999-01-01',
    '',
    ' ',
    '2026-07-28-draft',
    '2026-07-29',
    '__proto__',
    'latest',
    'v'.repeat(8_000),
  ]) {
    const cases = [
      {
        what: version.slice(0, 40),
        headers: { 'mcp-protocol-version': version },
        body: (text: string) => text.replace('"2026-07-28"', JSON.stringify(version)),
      },
    ];
    await refused(cases, 400, version.trim() === version ? -32022 : -32020, ({ json, text }) => {
      if (json.error.code !== -32022) return;
      assert.ok(json.error.data.supported.includes('2026-07-28'), text);
      assert.equal(json.error.data.requested, version.slice(0, json.error.data.requested.length), text);
    });
  }
});

test('mcp: a _meta that lacks a part, or has it in another type, is 400 with -32602', () => {
  const meta = (value: unknown) => (text: string) => text.replace(JSON.stringify(META), JSON.stringify(value) ?? '0');
  const key = 'io.modelcontextprotocol/';
  const lacking = (name: string) => Object.fromEntries(Object.entries(META).filter(([each]) => each !== key + name));
  return refused(
    [
      { what: 'no _meta', body: (text) => text.replace(/,"_meta":.*}}$/, '}}') },
      { what: 'no version', body: meta(lacking('protocolVersion')) },
      { what: 'no capabilities', body: meta(lacking('clientCapabilities')) },
      { what: 'empty', body: meta({}) },
      ...[null, [], 'x', 1, true].map((value) => ({ what: `_meta ${JSON.stringify(value)}`, body: meta(value) })),
      ...[null, 1, [], {}, true].map((value) => ({
        what: `version ${JSON.stringify(value)}`,
        body: meta({ ...META, [`${key}protocolVersion`]: value }),
      })),
      ...[null, 1, [], 'x', true].map((value) => ({
        what: `capabilities ${JSON.stringify(value)}`,
        body: meta({ ...META, [`${key}clientCapabilities`]: value }),
      })),
      ...[null, 1, [], 'x'].map((value) => ({
        what: `info ${JSON.stringify(value)}`,
        body: meta({ ...META, [`${key}clientInfo`]: value }),
      })),
      {
        what: 'capabilities of 65 KiB',
        body: meta({ ...META, [`${key}clientCapabilities`]: { experimental: { x: 'x'.repeat(65 * 1024) } } }),
      },
      ...[null, 1, [], 'loud', '__proto__', 'DEBUG'].map((value) => ({
        what: `level ${JSON.stringify(value)}`,
        body: meta({ ...META, [`${key}logLevel`]: value }),
      })),
      { what: 'the version outside', body: (text) => text.replace(/"_meta":/, '"meta":') },
    ],
    400,
    -32602,
  );
});

const METHODS = [
  'no/such',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'valueOf',
  'tools',
  'tools/',
  '/',
].concat([
  'TOOLS/CALL',
  'tools/call ',
  'tools//call',
  'tools/../call',
  'tools/call?x=1',
  'rpc.discover',
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
  'roots/list',
  'sampling/createMessage',
  'elicitation/create',
  'notifications/initialized',
  'm'.repeat(200),
]);

test('mcp: methods that are unknown, of the prototype, removed or of the other side are 404 with -32601', async () => {
  for (const { path } of WAYS) {
    for (const method of METHODS) {
      const { body, headers } = modern(method, { mark: MARK }, 'the-id');
      const all = method.endsWith(' ') ? { ...headers, 'mcp-method': `=?base64?${b64(method)}?=` } : headers;
      const reply = await arena.post(body, all, path);
      const what = `${path} ${method.slice(0, 40)}: ${reply.status} ${reply.text.slice(0, 200)}`;
      const expected = method.endsWith(' ') ? [400, -32020] : [404, -32601];
      assert.deepEqual([reply.status, reply.json.error?.code], expected, what);
      assert.equal(reply.json.id, 'the-id', what);
      assert.ok(reply.text.length < 1_000, `${what} echoes too much`);
    }
    await arena.alive(path);
  }
});

test('mcp: a session id on a request of 2026-07-28 is ignored and not returned', async () => {
  const { body, headers } = modern('tools/list');
  for (const id of [arena.victim['mcp-session-id']!, 'x'.repeat(32), 'x'.repeat(8_000), '__proto__']) {
    const plain = await arena.post(body, headers);
    const reply = await arena.post(body, { ...headers, 'mcp-session-id': id });
    assert.equal(reply.status, 200);
    assert.equal(reply.headers['mcp-session-id'], undefined);
    assert.equal(reply.text, plain.text);
  }
  for (const method of ['GET', 'DELETE']) {
    const lines = `MCP-Protocol-Version: 2026-07-28\r\nMcp-Session-Id: ${arena.victim['mcp-session-id']}\r\n`;
    const { statuses } = await arena.raw(`${method} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines}\r\n`);
    assert.deepEqual(statuses, [405], method);
  }
  await arena.alive();
});
