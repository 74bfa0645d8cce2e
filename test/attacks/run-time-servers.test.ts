import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Json } from '../support/raw-http.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { Arena, type Headers } from './arena.ts';

/** Group admin, rows on adding and changing servers: which definitions are refused. */

const SECRET = 'canary-of-the-environment-5150';
let arena: Arena;
/** A client with the control token only. */
let plain: RunTimeClient;
/** A client with both tokens, as the user of the machine has them. */
let exec: RunTimeClient;
before(async () => {
  const settings = { control: { commands: ['allowed-command'] } };
  arena = await Arena.start({ agents: true, settings, env: { CANARY: SECRET } });
  plain = new RunTimeClient(arena.gateway, false);
  exec = new RunTimeClient(arena.gateway);
});
after(() => arena.stop());

const lazy = { start: 'lazy' };
const PUBLIC = { url: 'https://mcp.example.com/mcp', ...lazy };

async function refused(name: string, definition: object, codes: readonly string[], client = plain): Promise<Json> {
  const reply = await client.add(name, definition);
  const what = `${JSON.stringify(definition)}: ${reply.status} ${reply.text.slice(0, 200)}`;
  assert.ok([400, 403, 413, 422].includes(reply.status), what);
  assert.ok(codes.includes(reply.json.error.code), what);
  assert.ok(!(await plain.names()).includes(name), what);
  return reply.json.error;
}

test('proto:O2 admin: without the tokens no caller adds, changes, suspends or removes anything; the exec token alone does not count', async () => {
  const JSON_TYPE = { 'content-type': 'application/json' };
  const bearers: readonly Headers[] = [
    {},
    { authorization: 'Bearer wrong' },
    { 'trunkline-exec': exec.token('exec') },
    { authorization: `Bearer ${exec.token('exec')}` },
    { authorization: `Bearer ${exec.token('exec')}`, 'trunkline-exec': plain.token() },
  ];
  for (const headers of bearers) {
    for (const [method, path] of [
      ['POST', '/api/v1/servers'],
      ['PUT', '/api/v1/servers/probe'],
      ['DELETE', '/api/v1/servers/probe'],
      ['POST', '/api/v1/servers/probe/suspend'],
      ['POST', '/api/v1/servers/probe/resume'],
    ] as const) {
      const body = JSON.stringify({ name: 'x', ...PUBLIC });
      const reply = await arena.control(path, method, { ...JSON_TYPE, ...headers }, body);
      assert.equal(reply.status, 401, `${method} ${path} ${JSON.stringify(headers)}`);
    }
  }
  const wrong = { authorization: `Bearer ${plain.token()}`, 'trunkline-exec': 'wrong', ...JSON_TYPE };
  const reply = await arena.control('/api/v1/servers', 'POST', wrong, JSON.stringify({ name: 'x', ...PUBLIC }));
  assert.deepEqual([reply.status, reply.json.error.code], [401, 'exec_token_wrong']);
  assert.deepEqual(await plain.names(), ['probe', 'remote']);
});

test('admin: a request that a foreign page can send without a preflight adds nothing, even with the tokens', async () => {
  const headers = { authorization: `Bearer ${plain.token()}`, 'trunkline-exec': exec.token('exec') };
  const body = JSON.stringify({ name: 'x', ...PUBLIC });
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
    for (const path of ['/api/v1/servers', '/api/v1/servers/probe/suspend']) {
      const reply = await arena.control(path, 'POST', { ...headers, 'content-type': type }, body);
      assert.equal(reply.status, 415, `${path} ${type}`);
    }
  }
  const origin = { ...headers, 'content-type': 'application/json', origin: 'https://evil.example' };
  assert.equal((await arena.control('/api/v1/servers', 'POST', origin, body)).status, 403);
  assert.deepEqual(await plain.names(), ['probe', 'remote']);
});

test('security:8 proto:O2 admin: the control token alone runs no command that is not allowed, and none with a variable that steers it', async () => {
  const mark = join(arena.dataFolder, 'executed');
  const commands: readonly object[] = [
    { command: 'touch', args: [mark] },
    { command: 'sh', args: ['-c', `touch ${mark}`] },
    { command: `sh -c 'touch ${mark}'` },
    { command: `/bin/sh` },
    { command: '$(touch x)' },
    { command: '`touch x`' },
    { command: 'allowed-command; touch x' },
    { command: './allowed-command' },
    { command: '/tmp/allowed-command' },
    { command: ['allowed-command ', '--x'] },
    { command: 'allowed-command', ssh: 'user@host' },
    { command: 'allowed-command', inheritEnv: true },
    { command: 'allowed-command', envFile: '/etc/passwd' },
    { docker: { image: 'alpine', volumes: ['/:/host'] } },
    { docker: { container: 'db' } },
  ];
  for (const definition of commands) await refused('cmd', definition, ['exec_required', 'definition_invalid']);
  for (const name of [
    'LD_PRELOAD',
    'NODE_OPTIONS',
    'PATH',
    'BASH_ENV',
    'PYTHONPATH',
    'DYLD_INSERT_LIBRARIES',
    'GIT_SSH',
  ]) {
    const error = await refused('env', { command: 'allowed-command', env: { [name]: '/tmp/x' } }, ['exec_required']);
    assert.ok(error.message.includes(name));
  }
  assert.ok(!existsSync(mark));
  const allowed = await plain.add('allowed', { command: 'allowed-command', args: ['--x'], ...lazy });
  assert.equal(allowed.status, 201, allowed.text);
  // A change to a definition that could not be added is refused too.
  assert.equal((await plain.change('allowed', { command: 'sh', ...lazy })).status, 403);
  assert.equal((await plain.server('allowed')).command, 'allowed-command');
  assert.equal((await exec.change('allowed', { command: 'sh', args: ['-c', 'exit'], ...lazy })).status, 200);
  await plain.remove('allowed');
});

test('admin: options smuggled into ssh and docker are refused, with any token', async () => {
  const definitions: readonly object[] = [
    { command: 'x', ssh: '-oProxyCommand=touch /tmp/x' },
    { command: 'x', ssh: 'user@-oProxyCommand=x' },
    { command: 'x', ssh: { host: '-oProxyCommand=x' } },
    { command: 'x', ssh: { host: 'h', user: '-l root' } },
    { docker: { image: '--privileged' } },
    { docker: { image: '-v/:/host' } },
  ];
  for (const definition of definitions) await refused('opt', definition, ['definition_invalid'], exec);
});

test('security:8 admin: with the control token alone no server has an address of this machine or its network, and none reads anything of the gateway', async () => {
  const { port } = new URL(arena.remote.url);
  const urls = [
    `http://127.0.0.1:${port}/mcp`,
    `http://2130706433:${port}/mcp`,
    `http://0x7f000001:${port}/mcp`,
    `http://0177.0.0.1:${port}/mcp`,
    `http://localhost:${port}/mcp`,
    `http://[::1]:${port}/mcp`,
    `http://[::ffff:127.0.0.1]:${port}/mcp`,
    'http://169.254.169.254/latest/meta-data/',
    'http://metadata.google.internal/',
    'http://10.0.0.1/mcp',
    'http://user:pa55-w0rd@mcp.example.com/mcp',
    'file:///etc/passwd',
    'gopher://127.0.0.1/x',
  ];
  for (const url of urls) {
    const error = await refused('ssrf', { url }, ['exec_required', 'definition_invalid']);
    assert.ok(!JSON.stringify(error).includes('pa55-w0rd'), url);
  }
  for (const header of ['${CANARY}', '${env:CANARY}', '${file:/etc/hostname}', 'a ${CANARY:-b}']) {
    const error = await refused('read', { ...PUBLIC, headers: { 'x-a': header } }, ['exec_required']);
    assert.ok(!JSON.stringify(error).includes(SECRET));
  }
  for (const keys of [{ bearer_token_env_var: 'CANARY' }, { env_http_headers: { 'x-a': 'CANARY' } }]) {
    await refused('read', { ...PUBLIC, ...keys }, ['exec_required']);
  }
  await refused('read', { ...PUBLIC, tls: { ca: '/etc/hostname' } }, ['exec_required', 'definition_invalid']);
  assert.equal((await plain.add('changed', PUBLIC)).status, 201);
  for (const definition of [{ url: urls[0] }, { ...PUBLIC, headers: { 'x-a': '${CANARY}' } }]) {
    const changed = await plain.change('changed', definition);
    assert.deepEqual([changed.status, changed.json.error.code], [403, 'exec_required'], changed.text);
  }
  await plain.remove('changed');
  // With the exec token all of these can be added.
  for (const definition of [
    { url: `http://127.0.0.1:${port}/mcp` },
    { ...PUBLIC, headers: { 'x-a': '${CANARY}', 'x-b': '${file:/etc/hostname}' } },
    { command: 'sh', args: ['-c', 'exit'] },
  ]) {
    const local = await exec.add('local', { ...definition, ...lazy });
    assert.equal(local.status, 201, local.text);
    await exec.remove('local');
  }
  assert.ok(!arena.gateway.stderr.includes(SECRET));
});

test('admin: names that are paths, markup, too long, or nearly taken are refused', async () => {
  const names = [
    '',
    ' ',
    '.',
    '..',
    '../x',
    'a/b',
    'a\\b',
    'a b',
    'a__b',
    '_a',
    'a_',
    '-a',
    'a\n',
    'a\u0000',
    'a'.repeat(65),
    '__proto__',
    '<script>',
    'ｐrobe',
    'probé',
    '\u202eprobe',
  ];
  for (const name of names) {
    const reply = await exec.add(name, PUBLIC);
    assert.equal(reply.status, 422, JSON.stringify(name));
    assert.deepEqual(
      reply.json.error.problems.map(({ code }: Json) => code),
      ['TL1402'],
      JSON.stringify(name),
    );
  }
  for (const name of ['probe', 'PROBE', 'Remote']) assert.equal((await exec.add(name, PUBLIC)).status, 409, name);
  for (const name of ['constructor', 'toString', 'hasOwnProperty', 'prototype']) {
    assert.equal((await exec.ask('GET', `/api/v1/servers/${name}`)).status, 404, name);
    assert.equal((await exec.remove(name)).status, 404, name);
    assert.equal((await exec.suspend(name)).status, 404, name);
  }
  assert.deepEqual(await plain.names(), ['probe', 'remote']);
});

test('admin: unknown keys, wrong types, other documents and too large ones are refused', async () => {
  const definitions: readonly object[] = [
    { ...PUBLIC, desired: { suspended: false } },
    { ...PUBLIC, revision: 1 },
    { ...PUBLIC, origin: 'x' },
    { ...PUBLIC, connectionDigest: 'x' },
    { ...PUBLIC, source: 'file' },
    { ...PUBLIC, admin: true },
    { ...PUBLIC, state: 'running' },
    { mcpServers: { x: PUBLIC } },
    { ...PUBLIC, listen: { host: '0.0.0.0' } },
    { ...PUBLIC, agents: {} },
    { url: 5 },
    { url: ['https://mcp.example.com/'] },
    { url: { toString: 'x' } },
    { ...PUBLIC, timeoutMs: '1' },
    { ...PUBLIC, enabled: 'yes' },
    { ...PUBLIC, headers: [] },
    { ...PUBLIC, headers: { 'x-a': 'a\r\nx-b: c' } },
    { ...PUBLIC, description: 'x'.repeat(5_000) },
  ];
  for (const definition of definitions) await refused('mass', definition, ['definition_invalid']);
  for (const body of [
    '',
    'null',
    '[]',
    '"x"',
    '{',
    '{}{}',
    '{"name":"x",}',
    '// x\n{}',
    '\u0000',
    'name: x\nurl: https://x.example/',
  ]) {
    const { status } = await plain.ask('POST', '/api/v1/servers', body === '' ? ' ' : body);
    assert.equal(status, 400, body);
  }
  const twice = '{"name":"dup","url":"https://a.example/","url":"https://b.example/"}';
  assert.equal((await plain.ask('POST', '/api/v1/servers', twice)).status, 422);
  const proto = '{"name":"pro","url":"https://a.example/","__proto__":{"exec":true}}';
  assert.equal((await plain.ask('POST', '/api/v1/servers', proto)).status, 422);
  const deep = `{"name":"deep","x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  assert.ok([400, 422].includes((await plain.ask('POST', '/api/v1/servers', deep)).status));
  for (const length of [300_000, 16 * 1024 * 1024]) {
    // The answer comes before the end of the body, and a client that goes on writing may lose it.
    const sent = plain.ask('POST', '/api/v1/servers', `{"name":"${'x'.repeat(length)}"}`);
    assert.equal(
      await sent.then(
        ({ status }) => status,
        ({ code }: Json) => (code === 'EPIPE' || code === 'ECONNRESET' ? 413 : code),
      ),
      413,
    );
  }
  assert.equal((await plain.add('big', { ...PUBLIC, headers: { 'x-a': 'x'.repeat(70_000) } })).status, 413);
  for (const query of ['?folder=relative', '?folder=', '?folder=%00', '?session=none', '?ttlMs=0']) {
    assert.ok([400, 404].includes((await plain.add('q', PUBLIC, query)).status), query);
  }
  assert.deepEqual(await plain.names(), ['probe', 'remote']);
  await arena.alive();
});

test('admin: an added server is shown without its secrets, and no log has them', async () => {
  const secret = 'canary-in-a-definition-31415926';
  const definition = {
    ...PUBLIC,
    headers: { authorization: `Bearer ${secret}`, 'x-other': secret },
    description: 'kept',
  };
  const added = await plain.add('masked', definition);
  assert.equal(added.status, 201, added.text);
  for (const path of ['/api/v1/servers', '/api/v1/servers/masked', '/api/v1/gateway', '/metrics', '/api/v1/logs']) {
    assert.ok(!(await plain.ask('GET', path)).text.includes(secret), path);
  }
  const bad = await plain.change('masked', { ...definition, timeoutMs: -1 });
  assert.equal(bad.status, 422);
  assert.ok(!bad.text.includes(secret), bad.text);
  assert.ok(!arena.gateway.stderr.includes(secret));
  await plain.remove('masked');
});
