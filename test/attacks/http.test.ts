import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ADA, Arena, JSON_HEADERS, modern } from './arena.ts';

/** Group http against the whole: both listeners, every route, and a call that must never run. */

let arena: Arena;
before(async () => {
  arena = await Arena.start({ agents: true, settings: { listen: { allowedOrigins: ['https://app.example'] } } });
});
after(() => arena.stop());

const MARK = 'smuggled-4711';
const HOST = 'Host: 127.0.0.1\r\n';
const JSON_TYPE = 'Content-Type: application/json\r\n';

/** A request that runs a tool if the gateway parses it as one. */
function runnable(mark: string): string {
  const { body, headers } = modern('tools/call', { name: 'probe__echo', arguments: { mark } });
  const lines = Object.entries({ ...JSON_HEADERS, ...headers, ...ADA, 'content-length': String(body.length) });
  return `POST /mcp HTTP/1.1\r\n${HOST}${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
}

const inner = runnable(MARK);
const auth = `Authorization: ${ADA.authorization}\r\n`;
const head = (lines: string, path = '/mcp') => `POST ${path} HTTP/1.1\r\n${HOST}${auth}${JSON_TYPE}${lines}\r\n`;

interface Wire {
  readonly what: string;
  readonly bytes: string | Buffer;
  readonly allowed: readonly number[];
}

const SMUGGLING: readonly Wire[] = [
  {
    what: 'CL.TE',
    bytes: `${head(`Content-Length: ${inner.length + 5}\r\nTransfer-Encoding: chunked\r\n`)}0\r\n\r\n${inner}`,
    allowed: [400],
  },
  {
    what: 'TE.CL',
    bytes:
      head('Transfer-Encoding: chunked\r\nContent-Length: 4\r\n') +
      `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`,
    allowed: [400],
  },
  {
    what: 'TE twice',
    bytes: `${head('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n')}0\r\n\r\n${inner}`,
    allowed: [400, 501],
  },
  { what: 'xchunked', bytes: `${head('Transfer-Encoding: xchunked\r\n')}0\r\n\r\n${inner}`, allowed: [400, 501] },
  {
    what: 'a tab before chunked',
    bytes: `${head('Transfer-Encoding:\tchunked, identity\r\n')}0\r\n\r\n${inner}`,
    allowed: [400, 501],
  },
  { what: 'two lengths', bytes: head(`Content-Length: 0\r\nContent-Length: 9\r\n`) + inner, allowed: [400] },
  { what: 'a list of lengths', bytes: head('Content-Length: 0, 9\r\n') + inner, allowed: [400] },
  { what: 'a length in hex', bytes: `${head('Content-Length: 0x2\r\n')}{}${inner}`, allowed: [400] },
  { what: 'a length with a sign', bytes: head('Content-Length: +0\r\n') + inner, allowed: [400] },
  { what: 'a negative length', bytes: head('Content-Length: -1\r\n') + inner, allowed: [400] },
  {
    what: 'a length above 2^64',
    bytes: head('Content-Length: 18446744073709551616\r\n') + inner,
    allowed: [400, 413],
  },
  { what: 'a space before the colon', bytes: head('Content-Length : 0\r\n') + inner, allowed: [400] },
  { what: 'a folded length', bytes: head('Content-Length:\r\n 0\r\n') + inner, allowed: [400] },
  { what: 'a folded header', bytes: head('X-A: b\r\n\tc\r\nContent-Length: 0\r\n') + inner, allowed: [400] },
  { what: 'a NUL in a header', bytes: head('X-A: b\0\r\nContent-Length: 0\r\n') + inner, allowed: [400] },
  { what: 'a bare CR in a header', bytes: head('X-A: b\rX-B: c\r\nContent-Length: 0\r\n') + inner, allowed: [400] },
  {
    what: 'a bare LF after the chunk size',
    bytes: `${head('Transfer-Encoding: chunked\r\n')}0\n\n${inner}`,
    allowed: [400],
  },
  {
    what: 'a chunk size with a sign',
    bytes: `${head('Transfer-Encoding: chunked\r\n')}+2\r\n{}\r\n0\r\n\r\n${inner}`,
    allowed: [400],
  },
  {
    what: 'a chunk size above 2^64',
    bytes: `${head('Transfer-Encoding: chunked\r\n')}10000000000000002\r\n{}\r\n0\r\n\r\n${inner}`,
    allowed: [400],
  },
  {
    what: 'a chunk extension of 200 KB',
    bytes: `${head('Transfer-Encoding: chunked\r\n')}2;${'a'.repeat(200_000)}\r\n{}\r\n0\r\n\r\n${inner}`,
    allowed: [400, 413],
  },
  { what: 'HTTP/0.9', bytes: `GET /mcp\r\n${inner}`, allowed: [400] },
  { what: 'HTTP/1.9', bytes: `GET /mcp HTTP/1.9\r\n${HOST}\r\n${inner}`, allowed: [400, 505] },
  { what: 'HTTP/2 in the clear', bytes: `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${inner}`, allowed: [400, 505] },
  {
    what: 'CONNECT with a request inside',
    bytes: `CONNECT 127.0.0.1:80 HTTP/1.1\r\n${HOST}\r\n${inner}`,
    allowed: [405, 501],
  },
  { what: 'a blank before the request line', bytes: ` ${inner}`, allowed: [400] },
  {
    what: 'an absolute target of another host',
    bytes: inner.replace('/mcp', 'http://evil.example/mcp'),
    allowed: [400],
  },
  { what: 'a second Host', bytes: inner.replace(HOST, `${HOST}Host: evil.example\r\n`), allowed: [400] },
  { what: 'no Host', bytes: inner.replace(HOST, ''), allowed: [400] },
  { what: 'a comma in Host', bytes: inner.replace(HOST, 'Host: 127.0.0.1, evil.example\r\n'), allowed: [400, 403] },
  { what: 'two keys', bytes: inner.replace('\r\n', '\r\nAuthorization: Bearer x\r\n'), allowed: [400] },
  {
    what: 'a gzip bomb',
    bytes: Buffer.concat([
      Buffer.from(head('Content-Encoding: gzip\r\nContent-Length: 10210\r\n')),
      gzipSync(Buffer.alloc(10_485_760)).subarray(0, 10_210),
    ]),
    allowed: [415],
  },
  {
    what: '10 GB with Expect',
    bytes: head('Content-Length: 10737418240\r\nExpect: 100-continue\r\n'),
    allowed: [413],
  },
  { what: '64 MiB announced', bytes: head('Content-Length: 67108864\r\n') + 'x'.repeat(70_000), allowed: [413] },
];

test('http: no bytes turn one request into two; each attack has one answer and nothing runs', async () => {
  for (const { what, bytes, allowed } of SMUGGLING) {
    const { statuses, text } = await arena.raw(bytes);
    assert.equal(statuses.length, 1, `${what}: ${text.slice(0, 300)}`);
    assert.ok(allowed.includes(statuses[0]!), `${what}: ${statuses[0]}`);
  }
  assert.ok(!arena.reached().includes(MARK));
  const good = await arena.raw(runnable('not-smuggled'));
  assert.deepEqual(good.statuses, [200], good.text);
  assert.ok(arena.reached().includes('not-smuggled'), 'the request itself is one that runs');
  await arena.alive();
});

const MCP_PATHS = [
  'POST /mcp',
  'GET /mcp',
  'DELETE /mcp',
  'POST /servers/probe/mcp',
  'GET /sse',
  'POST /message',
].concat([
  'GET /servers/probe/sse',
  'GET /livez',
  'GET /readyz',
  'GET /healthz',
  'GET /health',
  'GET /v0.1/servers',
  'GET /nowhere',
]);
const CONTROL_PATHS = [
  'GET /api/v1/servers',
  'POST /api/v1/servers/probe/restart',
  'GET /metrics',
  'GET /livez',
].concat(['GET /', 'GET /nowhere']);

const ORIGINS = [
  'null',
  'http://127.0.0.1.evil.example',
  'http://evil-127.0.0.1',
  'http://127.0.0.1@evil.example',
  'http://evil.example:4270',
  'file://',
  'https://evil.example',
  'http://[::1].evil.example',
  'moz-extension://localhost',
];
const HOSTS = [
  'evil.example',
  '127.0.0.1.nip.io',
  'localhost.evil.example:80',
  'evil@127.0.0.1',
  '0.0.0.0',
  '[::]',
  '2130706433',
];

test('security:2 proto:O1 http: on every path of both listeners a foreign Origin is 403 and a foreign Host refused', async () => {
  const bearer = { mcp: ADA.authorization, control: `Bearer ${arena.controlToken}` };
  for (const [listener, paths] of [
    ['mcp', MCP_PATHS],
    ['control', CONTROL_PATHS],
  ] as const) {
    for (const path of paths) {
      const request = (host: string, lines: string) =>
        `${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${bearer[listener]}\r\n${lines}Content-Length: 0\r\n\r\n`;
      const expectRefusal = async (what: string, bytes: string, allowed: readonly number[]) => {
        const { statuses, text } = await arena.raw(bytes, listener);
        assert.equal(statuses.length, 1, `${listener} ${path} ${what}`);
        assert.ok(allowed.includes(statuses[0]!), `${listener} ${path} ${what}: ${statuses[0]}`);
        assert.doesNotMatch(text, /access-control-allow-origin/i, `${path} ${what}`);
        assert.doesNotMatch(text, /evil|nip\.io/, `${path} ${what} is echoed`);
      };
      await Promise.all([
        ...ORIGINS.map((origin) =>
          expectRefusal(`Origin ${origin}`, request('127.0.0.1', `Origin: ${origin}\r\n`), [403]),
        ),
        ...HOSTS.map((host) =>
          expectRefusal(
            `Host ${host}`,
            request(host, `X-Forwarded-Host: 127.0.0.1\r\nForwarded: host=127.0.0.1\r\n`),
            [400, 403, 421],
          ),
        ),
      ]);
    }
  }
  await arena.alive();
});

test('http: paths are taken as written, on both listeners', async () => {
  const tricks = ['/../mcp', '/mcp/..', '//mcp', '/%2e%2e/mcp', '/servers/probe%2fmcp', '/servers/../mcp'].concat([
    '/servers/%70robe/mcp',
    '/servers/probe%00/mcp',
    '/servers/__proto__/mcp',
    '/servers/constructor/mcp',
    '/servers/%c0%ae%c0%ae/mcp',
    '/servers/Probe/mcp',
    '/servers/probe;x=1/mcp',
    '/servers/>/mcp',
    '/endpoints/__proto__/mcp',
    '/..%5c..%5cetc/passwd',
    '*',
    '/.well-known/../api/v1/servers',
    '/api/v1/servers',
    '/metrics',
  ]);
  for (const path of tricks) {
    const { statuses } = await arena.raw(inner.replace('/mcp', path));
    assert.equal(statuses.length, 1, path);
    assert.ok([400, 401, 403, 404].includes(statuses[0]!), `${path}: ${statuses[0]}`);
  }
  assert.ok(!arena.reached().includes(MARK));
  const token = `Authorization: Bearer ${arena.controlToken}\r\n`;
  for (const path of [
    '/api/v1/servers/../gateway',
    '/api/v1/servers/%2e%2e',
    '/api/v1//servers',
    '/mcp',
    '/.git/config',
    '/../../etc/passwd',
    '/api/v1/servers/__proto__',
    '/api/v1/sessions/constructor',
    '/control.token',
    '/state.db',
    '/trunkline.json',
    '/.env',
    '/debug/pprof',
    '/api/v1/secrets/any',
    '/proc/self/environ',
  ]) {
    const { statuses, text } = await arena.raw(`GET ${path} HTTP/1.1\r\n${HOST}${token}\r\n`, 'control');
    assert.equal(statuses.length, 1, path);
    assert.ok([400, 404, 405].includes(statuses[0]!), `${path}: ${statuses[0]}`);
    assert.doesNotMatch(text, /root:|key-of|LEDGER/);
  }
});

test('http: foreign methods, content types, overrides and protocols do nothing', async () => {
  for (const path of ['/mcp', '/servers/probe/mcp', '/sse', '/message']) {
    for (const method of ['TRACE', 'PUT', 'PATCH', 'PROPFIND', 'BREW', 'OPTIONS', 'HEAD']) {
      const { statuses, text } = await arena.raw(
        `${method} ${path} HTTP/1.1\r\n${HOST}${auth}X-Secret: do-not-trace\r\nContent-Length: 0\r\n\r\n`,
      );
      assert.equal(statuses.length, 1, `${method} ${path}`);
      assert.ok([400, 405, 501].includes(statuses[0]!), `${method} ${path}: ${statuses[0]}`);
      assert.ok(!text.includes('do-not-trace'), method);
    }
  }
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=a',
    'text/json',
    'application/json; charset=utf-16',
    'application/json-rpc',
    'text/plain; application/json',
  ]) {
    const { statuses } = await arena.raw(inner.replace('application/json', type));
    assert.deepEqual(statuses, [415], type);
  }
  for (const name of [
    'X-HTTP-Method-Override',
    'X-HTTP-Method',
    'X-Method-Override',
    'X-Original-URL',
    'X-Rewrite-URL',
  ]) {
    const value = name.endsWith('URL') ? '/mcp' : 'POST';
    const { statuses } = await arena.raw(`GET /nowhere HTTP/1.1\r\n${HOST}${auth}${name}: ${value}\r\n\r\n`);
    assert.deepEqual(statuses, [404], name);
  }
  const upgrades = [
    'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: eA==\r\n',
    'Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n',
  ];
  for (const lines of upgrades) {
    const { statuses } = await arena.raw(`GET /mcp HTTP/1.1\r\n${HOST}${auth}${lines}\r\n`);
    assert.deepEqual(statuses, [405], lines);
  }
  assert.ok(!arena.reached().includes(MARK));
  await arena.alive();
});

test('http: 200 concurrent callers, a thousand idle connections: all are served', async () => {
  const idle = Array.from({ length: 1_000 }, () => connect(arena.mcpPort, '127.0.0.1').on('error', () => {}));
  const { body, headers } = modern('tools/call', { name: 'remote__echo', arguments: { text: 'x' } });
  const replies = await Promise.all(Array.from({ length: 200 }, () => arena.post(body, { ...headers, ...ADA })));
  // Above what one turn can take in, a client receives Retry-After at once.
  for (const { status, headers: said } of replies)
    assert.ok(status === 200 || said['retry-after'] !== undefined, `${status}`);
  await arena.alive();
  for (const socket of idle) socket.destroy();
});

test('security:1 proto:O1 http: only loopback is bound, and only a page allowed by name gets CORS headers', async () => {
  for (const url of [arena.gateway.mcpUrl, arena.gateway.controlUrl]) assert.equal(new URL(url).hostname, '127.0.0.1');
  const outside = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  for (const { address, family, internal } of outside) {
    if (internal || family !== 'IPv4') continue;
    for (const port of [arena.mcpPort, arena.controlPort]) assert.equal(await reachable(address, port), false, address);
  }
  const preflight = (origin: string) =>
    arena.raw(
      `OPTIONS /mcp HTTP/1.1\r\n${HOST}Origin: ${origin}\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: mcp-param-x, x-evil\r\n\r\n`,
    );
  const granted = await preflight('https://app.example');
  assert.deepEqual(granted.statuses, [204]);
  const allowed = /access-control-allow-headers: ([^\r]*)/i.exec(granted.text)![1]!.toLowerCase().split(', ');
  for (const name of ['mcp-session-id', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-param-x']) {
    assert.ok(allowed.includes(name), name);
  }
  assert.ok(!allowed.includes('x-evil'));
  assert.doesNotMatch(granted.text, /allow-credentials|: \*/i);
  for (const origin of [
    'https://app.example.evil',
    'http://app.example',
    'https://app.example:444',
    'http://localhost:1',
  ]) {
    assert.doesNotMatch((await preflight(origin)).text, /access-control-allow/i, origin);
  }
});

function reachable(host: string, port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ host, port, timeout: 1_000 });
    const end = (yes: boolean) => () => {
      socket.destroy();
      done(yes);
    };
    socket.on('connect', end(true)).on('error', end(false)).on('timeout', end(false));
  });
}

test('every answer of both listeners forbids sniffing, whatever its content', async () => {
  const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\n${HOST}${more}\r\n`;
  const asks: readonly (string | Buffer)[] = [
    runnable('sniffed'),
    get('/mcp'),
    get('/nowhere'),
    get('/sse', auth),
    get('/mcp', 'Origin: https://foreign.example\r\n'),
    head('Content-Length: 3\r\n').concat('{x}'),
    head('Content-Length: 99999999\r\n'),
    head('Transfer-Encoding: gzip\r\n'),
    `OPTIONS /mcp HTTP/1.1\r\n${HOST}Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n`,
    `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`,
    get('/mcp', `X-Long: ${'x'.repeat(80_000)}\r\n`),
    get('/mcp', 'Expect: 200-ok\r\n'),
    'nonsense\r\n\r\n',
    get('/livez'),
    get('/metrics'),
    `DELETE /api/v1/servers/nope HTTP/1.1\r\n${HOST}Authorization: Bearer ${arena.controlToken}\r\n\r\n`,
  ];
  for (const listener of ['mcp', 'control'] as const) {
    for (const ask of asks) {
      const { text } = await arena.raw(ask, listener);
      const what = `${listener} ${ask.toString('latin1').slice(0, 60)}: ${text.slice(0, 300)}`;
      const [answered] = text.split('\r\n\r\n');
      assert.match(answered!, /^HTTP\/1\.1 [2-5]/, what);
      assert.match(answered!, /\r\nx-content-type-options: nosniff(?:\r\n|$)/i, what);
    }
  }
  await arena.alive();
});
