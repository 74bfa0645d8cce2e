import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { listenerRig, ODD, PLAIN, post, talk } from '../../../test/support/http-listener.ts';

interface Attack {
  readonly what: string;
  readonly bytes: string | Buffer;
  readonly allowed: readonly number[];
  /** Whether the server must close after it. */
  readonly closes?: boolean;
}

const HOST = 'Host: localhost\r\n';
const JSON_TYPE = 'Content-Type: application/json\r\n';
const start = (lines: string, body = ''): string => `POST /mcp HTTP/1.1\r\n${lines}\r\n${body}`;
const get = (target: string, lines = HOST): string => `GET ${target} HTTP/1.1\r\n${lines}\r\n`;
const next = post([], '{"smuggled":true}');

const framing: Attack[] = [
  { what: 'no Host', bytes: start(`${JSON_TYPE}Content-Length: 2\r\n`, '{}'), allowed: [400] },
  { what: 'an empty Host', bytes: start(`Host:\r\n${JSON_TYPE}Content-Length: 2\r\n`, '{}'), allowed: [400] },
  { what: 'two Hosts', bytes: start(`${HOST}${HOST}${JSON_TYPE}Content-Length: 2\r\n`, '{}'), allowed: [400] },
  { what: 'HTTP/1.0 without Host', bytes: 'GET /mcp HTTP/1.0\r\n\r\n', allowed: [400] },
  { what: 'absolute form', bytes: get('http://localhost/mcp'), allowed: [400] },
  {
    what: 'length and coding together',
    bytes: `${start(`${HOST}${JSON_TYPE}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n`, '0\r\n\r\n')}${next}`,
    allowed: [400],
    closes: true,
  },
  {
    what: 'two lengths',
    bytes: `${start(`${HOST}${JSON_TYPE}Content-Length: 2\r\nContent-Length: 40\r\n`, '{}')}${next}`,
    allowed: [400],
    closes: true,
  },
  {
    what: 'an unknown coding',
    bytes: `${start(`${HOST}${JSON_TYPE}Transfer-Encoding: xchunked\r\n`, '0\r\n\r\n')}${next}`,
    allowed: [400, 501],
    closes: true,
  },
  {
    what: 'gzip before chunked',
    bytes: start(`${HOST}${JSON_TYPE}Transfer-Encoding: gzip, chunked\r\n`, '0\r\n\r\n'),
    allowed: [400, 415, 501],
    closes: true,
  },
  {
    what: 'a folded header',
    bytes: start(`${HOST}X-A: b\r\n c\r\n${JSON_TYPE}Content-Length: 2\r\n`, '{}'),
    allowed: [400],
  },
  { what: 'a space before the colon', bytes: start(`${HOST}${JSON_TYPE}Content-Length : 2\r\n`, '{}'), allowed: [400] },
  { what: 'NUL in a value', bytes: start(`${HOST}X-A: a\0b\r\nContent-Length: 2\r\n`, '{}'), allowed: [400] },
  { what: 'a bare LF in the headers', bytes: start(`${HOST}X-A: a\nX-B: b\r\nContent-Length: 0\r\n`), allowed: [400] },
  { what: 'a negative length', bytes: start(`${HOST}${JSON_TYPE}Content-Length: -1\r\n`, '{}'), allowed: [400] },
  { what: 'a length with a sign', bytes: start(`${HOST}${JSON_TYPE}Content-Length: +2\r\n`, '{}'), allowed: [400] },
  {
    what: 'a bad chunk size',
    bytes: `${start(`${HOST}${JSON_TYPE}Transfer-Encoding: chunked\r\n`, 'zz\r\n{}\r\n0\r\n\r\n')}${next}`,
    allowed: [400],
    closes: true,
  },
  {
    what: 'a chunk longer than its size',
    bytes: `${start(`${HOST}${JSON_TYPE}Transfer-Encoding: chunked\r\n`, '1\r\n{}\r\n0\r\n\r\n')}${next}`,
    allowed: [400],
    closes: true,
  },
  {
    what: 'a chunk extension of 200 KB',
    bytes: start(`${HOST}${JSON_TYPE}Transfer-Encoding: chunked\r\n`, `2;${'a'.repeat(200_000)}\r\n{}\r\n0\r\n\r\n`),
    allowed: [400, 413],
    closes: true,
  },
  { what: 'HTTP/0.9', bytes: 'GET /mcp\r\n\r\n', allowed: [400], closes: true },
  { what: 'HTTP/1.9', bytes: 'GET /mcp HTTP/1.9\r\nHost: localhost\r\n\r\n', allowed: [400, 505], closes: true },
  { what: 'HTTP/2 in the clear', bytes: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', allowed: [400, 505], closes: true },
  { what: 'a TLS hello', bytes: Buffer.from('16030100050100000100', 'hex'), allowed: [400], closes: true },
  {
    what: 'random bytes',
    bytes: Buffer.from('9f8b03e1d2c4a57f00ff10\r\n\r\n', 'latin1'),
    allowed: [400],
    closes: true,
  },
];

const sizes: Attack[] = [
  {
    what: 'a header of 64 KiB',
    bytes: get('/mcp', `${HOST}X-A: ${'a'.repeat(65_536)}\r\n`),
    allowed: [431],
    closes: true,
  },
  { what: '2 500 headers', bytes: get('/mcp', HOST + 'X-A: b\r\n'.repeat(2_500)), allowed: [431], closes: true },
  { what: '201 short headers', bytes: get('/mcp', HOST + 'A: b\r\n'.repeat(200)), allowed: [431] },
  { what: 'a target of 64 KiB', bytes: get(`/${'a'.repeat(65_536)}`), allowed: [414, 431], closes: true },
  { what: 'a target of 10 KiB', bytes: get(`/mcp?${'a'.repeat(10_240)}`), allowed: [414] },
];

const paths: Attack[] = [
  '/../mcp',
  '/mcp/../mcp',
  '/mcp/..',
  '/./mcp',
  '//mcp',
  '/mcp//',
  '/%2e%2e/mcp',
  '/servers/a%2fb/mcp',
  '/servers/..%2f..%2fetc/mcp',
  '/servers/../mcp',
  '/servers/./mcp',
  '/servers//mcp',
  '/servers/a%00/mcp',
  '/servers/%c0%ae%c0%ae/mcp',
  `/servers/${'a'.repeat(256)}/mcp`,
  '/servers/a>/mcp',
  '/servers/*/mcp',
  '/servers/a/b/mcp',
  '/__proto__',
  '/constructor',
  '/mcp/',
  '/MCP',
  '/mcp;a=b',
  '/mcp#x',
  '*',
  'mcp',
].map((path) => ({ what: `the path ${path.slice(0, 40)}`, bytes: get(path), allowed: [400, 404] }));

const methods: Attack[] = [
  { what: 'TRACE', bytes: `TRACE /mcp HTTP/1.1\r\n${HOST}\r\n`, allowed: [405, 501] },
  {
    what: 'CONNECT',
    bytes: 'CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n',
    allowed: [405, 501],
    closes: true,
  },
  { what: 'PUT', bytes: `PUT /mcp HTTP/1.1\r\n${HOST}Content-Length: 0\r\n\r\n`, allowed: [405] },
  { what: 'PATCH', bytes: `PATCH /mcp HTTP/1.1\r\n${HOST}Content-Length: 0\r\n\r\n`, allowed: [405] },
  { what: 'PROPFIND', bytes: `PROPFIND /mcp HTTP/1.1\r\n${HOST}\r\n`, allowed: [405, 501] },
  { what: 'OPTIONS *', bytes: `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`, allowed: [400, 404, 405] },
  { what: 'an unknown method', bytes: `BREW /mcp HTTP/1.1\r\n${HOST}\r\n`, allowed: [400, 405, 501] },
];

const contents: Attack[] = [
  ...[
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'application/json; charset=utf-16',
  ].map((type) => ({
    what: `the content type ${type}`,
    bytes: start(`${HOST}Content-Type: ${type}\r\nContent-Length: 2\r\n`, '{}'),
    allowed: [415],
  })),
  { what: 'no content type', bytes: start(`${HOST}Content-Length: 2\r\n`, '{}'), allowed: [415] },
  {
    what: 'two content types',
    bytes: start(`${HOST}${JSON_TYPE}Content-Type: text/plain\r\nContent-Length: 2\r\n`, '{}'),
    allowed: [400],
  },
  {
    what: 'a gzip bomb',
    bytes: Buffer.concat([
      Buffer.from(start(`${HOST}${JSON_TYPE}Content-Encoding: gzip\r\nContent-Length: 10210\r\n`)),
      gzipSync(Buffer.alloc(10_485_760)).subarray(0, 10_210),
    ]),
    allowed: [415],
  },
  { what: 'an empty body', bytes: start(`${HOST}${JSON_TYPE}Content-Length: 0\r\n`), allowed: [400] },
  { what: 'no body', bytes: start(`${HOST}${JSON_TYPE}`), allowed: [400] },
  {
    what: 'an empty chunked body',
    bytes: start(`${HOST}${JSON_TYPE}Transfer-Encoding: chunked\r\n`, '0\r\n\r\n'),
    allowed: [400],
  },
  {
    what: '10 GB announced with Expect',
    bytes: start(`${HOST}${JSON_TYPE}Content-Length: 10737418240\r\nExpect: 100-continue\r\n`),
    allowed: [413],
    closes: true,
  },
  {
    what: '64 MiB announced',
    bytes: start(`${HOST}${JSON_TYPE}Content-Length: 67108864\r\n`, 'x'.repeat(100_000)),
    allowed: [413],
    closes: true,
  },
  {
    what: 'a chunked body above the limit',
    bytes: start(`${HOST}${JSON_TYPE}Transfer-Encoding: chunked\r\n`, `20000\r\n${'x'.repeat(0x20000)}\r\n`),
    allowed: [413],
    closes: true,
  },
  {
    what: 'another expectation',
    bytes: start(`${HOST}${JSON_TYPE}Content-Length: 2\r\nExpect: tea\r\n`, '{}'),
    allowed: [417],
  },
];

const repeated: Attack[] = [
  'Authorization',
  'Origin',
  'Mcp-Session-Id',
  'MCP-Protocol-Version',
  'Mcp-Name',
  'mcp-param-x',
].map((name) => ({
  what: `${name} twice`,
  bytes: post([`${name}: http://localhost`, `${name.toUpperCase()}: http://localhost`]),
  allowed: [400],
}));

const foreign: Attack[] = [
  ...[
    'null',
    'http://localhost.evil.example',
    'http://evil-localhost',
    'http://localhost@evil.example',
    'http://evil.example#localhost',
    'file://',
    'http://[::1',
    'http://127.0.0.1.evil.example',
    'https://evil.example',
    'http://2130706433',
    'http://localhost:99999999',
  ].map((origin) => ({ what: `the Origin ${origin}`, bytes: post([`Origin: ${origin}`]), allowed: [403] })),
  { what: 'an empty Origin', bytes: post(['Origin: ']), allowed: [403] },
  ...[
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example:80',
    'localhost:80@evil.example',
    '0.0.0.0',
    '2130706433',
    '127.1',
    '192.168.0.1',
    'localhost.',
    'localhost:70000',
    'localhost/mcp',
  ].map((host) => ({ what: `the Host ${host}`, bytes: post([], '{}', '/mcp', host), allowed: [400, 403, 421] })),
  {
    what: 'a foreign Host with X-Forwarded-Host',
    bytes: post(['X-Forwarded-Host: localhost', 'Forwarded: host=localhost'], '{}', '/mcp', 'evil.example'),
    allowed: [400, 403, 421],
  },
  {
    what: 'a CORS preflight of a foreign page',
    bytes: `OPTIONS /mcp HTTP/1.1\r\n${HOST}Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n`,
    allowed: [403],
  },
  {
    what: 'a CORS preflight of a page on loopback, which was not allowed by name',
    bytes: `OPTIONS /mcp HTTP/1.1\r\n${HOST}Origin: http://localhost:6274\r\nAccess-Control-Request-Method: POST\r\n\r\n`,
    allowed: [405],
  },
];

describe('attacks on the listener', () => {
  for (const [group, attacks] of Object.entries({ framing, sizes, paths, methods, contents, repeated, foreign })) {
    for (const [fastPath, before] of Object.entries({ 'any lane': null, 'the plain lane': PLAIN, 'node:http': ODD })) {
      test(`${group}, on a connection in ${fastPath}: each is refused with one answer and reaches no handler`, async (t) => {
        const { port, reached } = await listenerRig(t);
        const met = async ({ what, bytes, allowed, closes }: Attack): Promise<void> => {
          const { statuses, text, closed } = await talk(port, bytes, 40, 8_000, before);
          assert.equal(statuses.length, 1, `${what}: ${JSON.stringify(text.slice(0, 400))}`);
          assert.ok(allowed.includes(statuses[0]!), `${what}: ${statuses[0]}`);
          if (closes === true) assert.ok(closed || /\r\nConnection: close\r\n/i.test(text), `${what}: stays open`);
          assert.doesNotMatch(text, /access-control-allow/i, what);
          const body = text.slice(text.indexOf('\r\n\r\n') + 4);
          assert.equal(typeof JSON.parse(body).error.code, 'string', `${what}: ${body}`);
        };
        for (let i = 0; i < attacks.length; i += 8) await Promise.all(attacks.slice(i, i + 8).map(met));
        assert.deepEqual(reached, before === null ? [] : attacks.map(() => '/mcp  {"a":1}'));
        // The listener still serves requests.
        assert.deepEqual((await talk(port, post(), 40)).statuses, [200]);
      });
    }
  }

  test('override headers change nothing', async (t) => {
    const { port, reached } = await listenerRig(t);
    const lines = ['X-HTTP-Method-Override: DELETE', 'X-Original-URL: /admin', 'X-Rewrite-URL: /admin'];
    assert.deepEqual((await talk(port, post(lines))).statuses, [200]);
    assert.deepEqual(reached, ['/mcp  {"a":1}']);
  });

  test('an upgrade is answered like a plain request', async (t) => {
    const { port } = await listenerRig(t);
    for (const upgrade of ['websocket', 'h2c']) {
      const { statuses } = await talk(port, get('/mcp', `${HOST}Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`));
      assert.deepEqual(statuses, [200], upgrade);
    }
  });

  test('a malformed request behind a good one gets no answer that looks like the good one’s', async (t) => {
    const { port, listener } = await listenerRig(t);
    listener.routes.add('/slow', { GET: (context) => setTimeout(() => context.json(200, '{"slow":true}'), 50) });
    const { statuses, text } = await talk(port, `${get('/slow')}BAD\x01REQUEST\r\n\r\n`);
    // In either lane: no answer, the good answer, or the good answer and then the error.
    if (statuses.length > 0) assert.match(text, /^HTTP\/1\.1 200 OK\r\n[^{]*\{"slow":true\}/);
    assert.deepEqual(statuses.slice(1), statuses.length > 1 ? [400] : []);
  });

  test('a client that sends headers or body slowly gets 408, and is closed', async (t) => {
    const { port, reached } = await listenerRig(t, {}, { headersTimeoutMs: 400, requestTimeoutMs: 800 });
    const [silent, dripping, half] = await Promise.all([
      talk(port, ''),
      talk(port, 'GET /mcp HTTP/1.1\r\nHost: loc'),
      talk(port, start(`${HOST}${JSON_TYPE}Content-Length: 100\r\n`, '{"a":')),
    ]);
    for (const { statuses, closed } of [silent, dripping, half]) {
      assert.deepEqual(statuses, [408]);
      assert.equal(closed, true);
    }
    assert.deepEqual(reached, []);
  });

  test('idle connections above the limit are closed at once, those within it are served', async (t) => {
    const { port, refused } = await listenerRig(t, { maxConnections: 20 }, { headersTimeoutMs: 600 });
    const idle = Array.from({ length: 40 }, () => talk(port, ''));
    const ended = await Promise.all(idle);
    assert.equal(ended.filter(({ statuses }) => statuses.length === 0).length, 20);
    assert.equal(refused.filter((code) => code === 'too_many_connections').length, 20);
    assert.deepEqual((await talk(port, post())).statuses, [200]);
  });

  test('200 clients at once are all served', async (t) => {
    const { port, reached } = await listenerRig(t);
    const all = await Promise.all(Array.from({ length: 200 }, () => talk(port, post(['Connection: close']))));
    assert.ok(all.every(({ statuses }) => statuses.length === 1 && statuses[0] === 200));
    assert.equal(reached.length, 200);
  });

  test('400 random streams of bytes: no crash, at most one answer to each, then closed', async (t) => {
    const { port, reached } = await listenerRig(t, {}, { headersTimeoutMs: 300, requestTimeoutMs: 600 });
    let seed = 42;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed % below;
    };
    const good = Buffer.from(post());
    const streams = Array.from({ length: 400 }, () => {
      const bytes = Buffer.from(good);
      for (let i = random(6) + 1; i > 0; i--) bytes[random(bytes.length)] = random(256);
      return bytes;
    });
    for (let i = 0; i < streams.length; i += 40) {
      const ended = await Promise.all(streams.slice(i, i + 40).map((bytes) => talk(port, bytes, 50)));
      for (const [j, { statuses, text }] of ended.entries()) {
        assert.ok(statuses.length <= 1, `${JSON.stringify(streams[i + j]!.toString('latin1'))}: ${text}`);
      }
    }
    assert.ok(reached.every((each) => each.startsWith('/mcp ')));
    assert.deepEqual((await talk(port, post())).statuses, [200]);
  });
});
