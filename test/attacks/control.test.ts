import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { open, send } from '../support/raw-http.ts';
import { ADA, ADA_KEY, Arena, type Headers, rpc } from './arena.ts';

/** The groups admin and ui against the operations of the control listener. */

let arena: Arena;
let bearer: Headers;
before(async () => {
  arena = await Arena.start({ agents: true });
  bearer = { authorization: `Bearer ${arena.controlToken}` };
});
after(() => arena.stop());

const JSON_TYPE = { 'content-type': 'application/json' };
const OPERATIONS: readonly (readonly [string, string])[] = [
  ['GET', '/api/v1/gateway'],
  ['GET', '/api/v1/servers'],
  ['GET', '/api/v1/servers/probe'],
  ['POST', '/api/v1/servers/probe/restart'],
  ['POST', '/api/v1/servers/probe/call?tool=echo'],
  ['GET', '/api/v1/tools'],
  ['GET', '/api/v1/sessions'],
  ['DELETE', '/api/v1/sessions/x'],
  ['GET', '/metrics'],
];

async function pidOfProbe(): Promise<number> {
  const { connections } = (await arena.control('/api/v1/servers/probe', 'GET', bearer)).json;
  const { pid } = connections[0];
  assert.equal(typeof pid, 'number');
  return pid;
}

test('security:7 proto:O2 admin: without the token of the data folder the API reveals and changes nothing', async () => {
  const token = arena.controlToken;
  const pid = await pidOfProbe();
  const wrong: readonly Headers[] = [
    {},
    { authorization: '' },
    { authorization: 'Bearer' },
    { authorization: `Bearer ${token.slice(0, -1)}` },
    { authorization: `Bearer ${token}0` },
    { authorization: `Bearer ${token.toUpperCase()}x` },
    { authorization: `Bearer ${token} ${token}` },
    { authorization: token },
    { authorization: `Token ${token}` },
    { authorization: `Basic ${Buffer.from(`admin:${token}`).toString('base64')}` },
    { authorization: `Basic ${Buffer.from('admin:admin').toString('base64')}` },
    { authorization: 'Bearer admin' },
    { authorization: 'Bearer changeme' },
    { authorization: 'Bearer [redacted]' },
    { authorization: `Bearer ${ADA_KEY}` },
    { cookie: `token=${token}; authorization=Bearer ${token}` },
    { 'x-api-key': token, 'x-auth-token': token, 'proxy-authorization': `Bearer ${token}` },
    { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-user': 'admin' },
    { 'x-http-method-override': 'GET' },
  ];
  for (const headers of wrong) {
    for (const [method, path] of OPERATIONS) {
      for (const target of [path, `${path}${path.includes('?') ? '&' : '?'}token=${token}&access_token=${token}`]) {
        const body = method === 'POST' ? '{}' : null;
        const reply = await arena.control(target, method, { ...JSON_TYPE, ...headers }, body);
        const what = `${method} ${path} ${JSON.stringify(headers).slice(0, 60)}`;
        assert.equal(reply.status, 401, what);
        assert.match(String(reply.headers['www-authenticate']), /^Bearer/, what);
        assert.doesNotMatch(reply.text, /probe|trunkline_|node:/, what);
      }
    }
  }
  assert.equal(await pidOfProbe(), pid, 'nothing was restarted');
  assert.ok(!arena.gateway.stderr.includes(token), 'the token is in the log');
  await arena.alive();
});

test('security:7 the control API has a port of its own, and every operation of it requires the token', async () => {
  const { paths } = JSON.parse(readFileSync(resolve(import.meta.dirname, '../../schema/openapi.json'), 'utf8'));
  const operations = Object.entries<object>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => [method.toUpperCase(), path.replaceAll('{name}', 'probe')] as const),
  );
  assert.ok(operations.length > 20);
  assert.notEqual(arena.mcpPort, arena.controlPort);
  assert.equal((await arena.control('/livez')).status, 200);
  for (const [method, path] of operations) {
    const body = method === 'GET' || method === 'DELETE' ? null : '{"token":"wrong"}';
    for (const headers of [{}, { authorization: `Bearer ${'x'.repeat(arena.controlToken.length)}` }]) {
      // A stream that opens would not end.
      const { response, request } = await open(
        arena.gateway.controlUrl + path,
        method,
        { ...JSON_TYPE, ...headers },
        body,
      );
      request.destroy();
      assert.equal(response.statusCode, 401, `${method} ${path}`);
    }
    for (const headers of [bearer, ADA]) {
      const { status } = await send(arena.url(path), method, { ...JSON_TYPE, ...headers }, body);
      assert.equal(status, 404, `${method} ${path} on the MCP port`);
    }
  }
});

test('proto:O2 admin: only its user can read the token, it opens no MCP endpoint, and keys of agents open nothing here', async () => {
  assert.equal(statSync(join(arena.dataFolder, 'control.token')).mode & 0o077, 0);
  assert.equal(statSync(arena.dataFolder).mode & 0o077, 0);
  assert.ok(arena.controlToken.length >= 32);
  const reply = await arena.post(rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {} }), bearer);
  assert.equal(reply.status, 401);
});

test('proto:O2 admin: the token alone runs no command, and the log has every command that ran', async () => {
  const added = { name: 'x', command: 'touch', args: ['/tmp/x'], mcpServers: { x: { command: 'touch' } } };
  for (const path of ['/api/v1/servers', '/api/v1/servers/x', '/api/v1/gateway', '/api/v1/config', '/api/v1/exec']) {
    for (const method of ['POST', 'PUT', 'PATCH']) {
      const { status } = await arena.control(path, method, { ...bearer, ...JSON_TYPE }, JSON.stringify(added));
      // Those that take definitions refuse this one (run-time-servers.test.ts); the others are not there.
      assert.ok([403, 404, 405, 422].includes(status), `${method} ${path}: ${status}`);
    }
  }
  const pid = await pidOfProbe();
  const entries = arena.gateway.stderr.split('\n').filter((line) => line.includes('"process_started"'));
  const own = entries.map((line) => JSON.parse(line)).find((entry) => entry.pid === pid);
  assert.equal(own?.server, 'probe');
  assert.equal(own.command, process.execPath);
  assert.match(own.args[0], /probe-server\.mjs$/);
});

test('admin: reading methods change nothing, and GET changes nothing', async () => {
  const pid = await pidOfProbe();
  for (const path of ['/api/v1/servers/probe/restart', '/api/v1/servers/probe/call?tool=echo', '/api/v1/sessions/x']) {
    for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'OPTIONS', 'TRACE']) {
      const { status } = await arena.control(path, method, { ...bearer, 'x-http-method-override': 'POST' });
      assert.ok([404, 405, 501].includes(status), `${method} ${path}: ${status}`);
    }
  }
  for (const [method, path] of OPERATIONS.filter(([each]) => each === 'GET')) {
    for (const other of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      // Without the length, the body that Node sends after a DELETE would begin another request.
      const headers = { ...bearer, ...JSON_TYPE, 'content-length': '2' };
      const { status } = await arena.control(path, other, headers, '{}');
      // Neither an empty definition nor a removal changes a server of a file.
      const changes = path.startsWith('/api/v1/servers') ? [409, 422] : [];
      assert.ok([404, 405, 501, ...changes].includes(status), `${other} ${path} (${method}): ${status}`);
    }
  }
  assert.equal(await pidOfProbe(), pid);
  await arena.alive();
});

test('admin: a request that a foreign page can send without a preflight is refused, even with the token', async () => {
  const pid = await pidOfProbe();
  const types = [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'text/plain; application/json',
  ];
  for (const type of types) {
    for (const path of ['/api/v1/servers/probe/call?tool=echo', '/api/v1/servers/probe/restart']) {
      const { status } = await arena.control(path, 'POST', { ...bearer, 'content-type': type }, '{"mark":"csrf"}');
      assert.equal(status, 415, `${path} ${type}`);
    }
  }
  for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1.evil.example']) {
    for (const [method, path] of OPERATIONS) {
      const reply = await arena.control(
        path,
        method,
        { ...bearer, ...JSON_TYPE, origin },
        method === 'POST' ? '{}' : null,
      );
      assert.equal(reply.status, 403, `${origin} ${path}`);
      assert.equal(reply.headers['access-control-allow-origin'], undefined);
    }
  }
  assert.equal(await pidOfProbe(), pid);
  assert.ok(!arena.reached().includes('csrf'));
});

test('admin: bodies, names and queries of the wrong kind are refused in time', async () => {
  const call = '/api/v1/servers/probe/call?tool=echo';
  const bodies: readonly [string, readonly number[]][] = [
    ['', [400]],
    ['{', [400]],
    ['[]', [400]],
    ['null', [400]],
    ['"x"', [400]],
    ['1', [400]],
    ['{} {}', [400]],
    ['{"a":1},"name":"fail"', [400]],
    ['{"a":1}},"id":1,{', [400]],
    [`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`, [400]],
    [`{"a":"${'x'.repeat(17 * 1024 * 1024)}"}`, [413]],
  ];
  for (const [body, allowed] of bodies) {
    const began = performance.now();
    const { status, text } = await arena
      .control(call, 'POST', { ...bearer, ...JSON_TYPE }, body)
      .catch(() => ({ status: 413, text: '' }));
    assert.ok(allowed.includes(status), `${body.slice(0, 40)}: ${status} ${text.slice(0, 200)}`);
    assert.ok(performance.now() - began < 5_000);
  }
  const names = [
    'nobody',
    '__proto__',
    'constructor',
    'probe%20',
    'probe%00',
    '%2e%2e',
    'PROBE',
    '$(id)',
    'probe;id',
    '-rf',
    'x'.repeat(255),
    'x'.repeat(5_000),
  ];
  for (const name of names) {
    for (const [method, path] of [
      ['GET', `/api/v1/servers/${name}`],
      ['POST', `/api/v1/servers/${name}/restart`],
      ['POST', `/api/v1/servers/${name}/call?tool=echo`],
      ['DELETE', `/api/v1/sessions/${name}`],
      ['GET', `/api/v1/tools?server=${name}`],
    ] as const) {
      const { status, text } = await arena.control(
        path,
        method,
        { ...bearer, ...JSON_TYPE },
        method === 'POST' ? '{}' : null,
      );
      assert.ok([400, 404].includes(status), `${method} ${path.slice(0, 60)}: ${status}`);
      assert.ok(text.length < 1_000, 'echoes too much');
    }
  }
  for (const query of [
    '',
    '?tool=',
    '?tool=%00',
    '?tool=__proto__x',
    `?tool=${'x'.repeat(5_000)}`,
    '?tool=echo%0d%0aX:1',
    "?tool=';--",
    '?tool[]=echo',
  ]) {
    const { status, json } = await arena.control(
      `/api/v1/servers/probe/call${query}`,
      'POST',
      { ...bearer, ...JSON_TYPE },
      '{}',
    );
    assert.ok(
      status === 400 || (status === 200 && json.outcome !== 'RESULT') || json?.error !== undefined,
      `${query.slice(0, 30)}: ${status} ${JSON.stringify(json)}`,
    );
  }
  await arena.alive();
});

test('admin: twenty concurrent restarts leave one server that works', async () => {
  const replies = await Promise.all(
    Array.from({ length: 20 }, () => arena.control('/api/v1/servers/probe/restart', 'POST', bearer)),
  );
  for (const { status } of replies) assert.ok([200, 409, 429].includes(status), `${status}`);
  await arena.gateway.ready('probe');
  await arena.alive();
});

test('proto:S1 admin: no answer shows ids of sessions, only labels', async () => {
  const { text, json } = await arena.control('/api/v1/sessions', 'GET', bearer);
  assert.ok(json.sessions.length >= 1);
  const id = arena.victim['mcp-session-id']!;
  assert.ok(!text.includes(id));
  for (const path of ['/api/v1/servers', '/api/v1/servers/probe', '/api/v1/gateway', '/metrics']) {
    assert.ok(!(await arena.control(path, 'GET', bearer)).text.includes(id), path);
  }
  assert.ok(arena.gateway.stderr.includes('state_lost'), 'the restarts above lost the state of sessions');
  assert.ok(!arena.gateway.stderr.includes(id), 'session id in the log');
  const { label } = json.sessions[0];
  const taken = await arena.post(rpc('ping'), { ...arena.victim, 'mcp-session-id': label });
  assert.equal(taken.status, 404);
});

test('ui: answers forbid framing, sniffing, caching and scripts, set no cookie and do not redirect', async () => {
  for (const path of [
    '/api/v1/servers',
    '/metrics',
    '/livez',
    '/api/v1/servers/<script>alert(1)</script>',
    '/nowhere',
    '/login?redirect=https://evil.example',
  ]) {
    const reply = await arena.control(path, 'GET', bearer);
    assert.ok(reply.status === 200 || reply.status === 400 || reply.status === 404, `${path}: ${reply.status}`);
    assert.equal(reply.headers.location, undefined);
    assert.equal(reply.headers['set-cookie'], undefined);
    assert.doesNotMatch(String(reply.headers['content-type']), /html/);
    assert.ok(!reply.text.includes('<script'), path);
    assert.equal(reply.headers['x-content-type-options'], 'nosniff', path);
    assert.match(String(reply.headers['content-security-policy']), /frame-ancestors 'none'/, path);
    assert.match(String(reply.headers['cache-control']), /no-store/, path);
  }
});

test('ui: the console holds no secret, forbids framing, and does not redirect', async () => {
  for (const path of ['/', '/?next=//evil.example']) {
    const reply = await arena.control(path, 'GET', {});
    assert.ok(reply.status === 200 || reply.status === 503, `${path}: ${reply.status}`);
    assert.equal(reply.headers.location, undefined);
    assert.equal(reply.headers['set-cookie'], undefined);
    assert.ok(!reply.text.includes('evil') && !reply.text.includes(arena.controlToken));
    const policy = String(reply.headers['content-security-policy']);
    assert.match(policy, /default-src 'none';.*frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe|\*/);
    assert.equal(reply.headers['x-content-type-options'], 'nosniff');
    assert.equal(reply.headers['referrer-policy'], 'no-referrer');
  }
  for (const path of ['/assets/..%2f..%2fpackage.json', '/assets/../package.json', '/assets/index.html', '/assets/']) {
    const { status } = await arena.control(path, 'GET', {});
    assert.ok(status === 400 || status === 404, `${path}: ${status}`);
  }
});
