import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { type Certified, TestAuthority } from '../support/certificates.ts';
import { manySided } from '../support/many-sided.ts';
import { send } from '../support/raw-http.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const KEY = 'key-of-ada-0123456789';
const PING = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-e2e-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function peerName(url: string, ca: string): Promise<{ name: string; status: number }> {
  return new Promise((resolve, reject) => {
    const req = request(url, { ca, agent: false }, (res) => {
      const name = (res.socket as TLSSocket).getPeerCertificate().subject.CN;
      res.resume();
      resolve({ name: String(name), status: res.statusCode! });
    });
    req.on('error', reject);
    req.end();
  });
}

test('TLS from files, agents required; a renewed certificate takes effect without a restart, a broken one changes nothing', async (t) => {
  const folder = folderOf(t);
  const authority = new TestAuthority();
  const write = ({ cert, key }: Certified): void => {
    writeFileSync(join(folder, 'cert.pem'), cert);
    writeFileSync(join(folder, 'key.pem'), key);
  };
  const issue = (name: string) => authority.issue({ name, hosts: ['127.0.0.1', 'localhost'] });
  write(issue('first'));
  const config = {
    mcpServers: { s: manySided('s') },
    agents: { ada: { key: KEY } },
    tls: { cert: './cert.pem', key: './key.pem' },
  };
  const gateway = await RunningGateway.start({ config, folder });
  t.after(() => gateway.dispose());
  assert.match(gateway.mcpUrl, /^https:/);
  const url = gateway.mcpUrl.replace(/mcp$/, 'livez');
  assert.deepEqual(await peerName(url, authority.cert), { name: 'first', status: 200 });
  write(issue('second'));
  for (let i = 0; i < 200 && (await peerName(url, authority.cert)).name !== 'second'; i++) await sleep(50);
  assert.equal((await peerName(url, authority.cert)).name, 'second');
  writeFileSync(join(folder, 'cert.pem'), 'no certificate');
  await sleep(1_000);
  assert.equal((await peerName(url, authority.cert)).name, 'second');
  assert.match(gateway.stderr, /certificate|tls/i);
});

test('link reports a problem with the certificate of a gateway, and succeeds where its CA is trusted', async (t) => {
  const [folder, home] = [folderOf(t), folderOf(t)];
  const authority = new TestAuthority();
  const { cert, key } = authority.issue({ name: 'gateway', hosts: ['127.0.0.1'] });
  for (const [name, text] of Object.entries({ cert, key, ca: authority.cert })) writeFileSync(join(folder, name), text);
  const config = { mcpServers: {}, agents: { ada: { key: KEY } }, tls: { cert: './cert', key: './key' } };
  const gateway = await RunningGateway.start({ config, folder });
  t.after(() => gateway.dispose());
  const link = (url: string, env: object = {}) =>
    trunkline(['link', 'cursor', '--yes', '--key', KEY, '--url', url], { cwd: home, env: { HOME: home, ...env } });
  const { mcpUrl } = gateway;
  const untrusted = await link(mcpUrl);
  assert.equal(untrusted.code, 4);
  assert.match(untrusted.err, /its certificate is not trusted .*; set NODE_EXTRA_CA_CERTS to the file of its CA/);
  assert.match((await link(mcpUrl.replace('https', 'http'))).err, /a gateway with tls needs https/);
  const trusted = { NODE_EXTRA_CA_CERTS: join(folder, 'ca') };
  const { err } = await link(mcpUrl.replace('127.0.0.1', 'localhost'), trusted);
  assert.match(err, /its certificate is not for localhost; use a name that it has/);
  assert.equal(existsSync(join(home, '.cursor')), false);
  const linked = await link(mcpUrl, trusted);
  assert.equal(linked.code, 0, linked.err);
});

test('a certificate that cannot be used is refused by check, the start and doctor, with file and remedy', async (t) => {
  const cwd = folderOf(t);
  const authority = new TestAuthority();
  const [own, foreign] = [authority.issue({ name: 'own' }), authority.issue({ name: 'foreign' })];
  const files = { 'cert.pem': own.cert, 'key.pem': own.key, 'foreign.pem': foreign.key, text: 'no PEM' };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
  const pair = { cert: './cert.pem', key: './key.pem' };
  const mistakes: readonly [object, RegExp][] = [
    [{ tls: { ...pair, cert: './none.pem' } }, /tls\.cert: \S+none\.pem: there is no such file; correct the path/],
    [{ tls: { ...pair, cert: '.' } }, /tls\.cert: \S+: is a folder; correct the path/],
    [{ tls: { ...pair, key: './text' } }, /tls\.key: \S+text: is not a PEM file; correct the path/],
    [
      { tls: { ...pair, key: './foreign.pem' } },
      /cert\.pem and \S+foreign\.pem are not a certificate and its key: .*; name two that belong together/,
    ],
    [{ control: { tls: { ...pair, clientCa: './none' } } }, /control\.tls\.clientCa: \S+none: there is no such file/],
  ];
  const options = ['--port', '0', '--control-port', '0', '--data-dir', join(cwd, 'data')];
  for (const [settings, words] of mistakes) {
    writeFileSync(join(cwd, 'trunkline.json'), JSON.stringify({ mcpServers: {}, ...settings }));
    for (const command of [['check'], [], ['doctor']]) {
      const { code, out, err } = await trunkline([...command, ...options], { cwd });
      assert.equal(code, command[0] === 'doctor' ? 4 : 1, out + err);
      assert.match(out + err, words);
    }
  }
  writeFileSync(join(cwd, 'trunkline.json'), JSON.stringify({ mcpServers: {}, tls: pair }));
  assert.match((await trunkline(['doctor', ...options], { cwd })).out, /ok +certificate +\S+cert\.pem\n/);
});

test('security:1 a bind beyond loopback is refused with the remedy, unless secured or insecure on purpose', async (t) => {
  const cwd = folderOf(t);
  let runs = 0;
  /** Starts the gateway; the exit code is null where it listens. */
  const run = async (config: object, ...flags: string[]) => {
    const name = `${++runs}`;
    writeFileSync(join(cwd, `${name}.json`), JSON.stringify(config));
    const args = ['--port', '0', '--control-port', '0', '--data-dir', join(cwd, name), ...flags, `${name}.json`];
    const one = startTrunkline(args, { cwd });
    const listens = new Promise<void>((done) => {
      one.process.stdout!.on('data', () => /MCP +http/.test(one.out) && done());
    });
    await Promise.race([listens, one.exited]);
    const code = one.process.exitCode;
    one.process.kill();
    await one.exited;
    return { code, out: one.out, err: one.err };
  };
  const mcpServers = { s: manySided('s', {}, { start: 'lazy' }) };
  const listen = { host: '0.0.0.0' };
  const proxied = { ...listen, trustedProxies: ['10.0.0.0/8'] };
  const agents = { ada: { key: KEY } };
  const { cert, key } = new TestAuthority().issue({ name: 'gateway' });
  writeFileSync(join(cwd, 'cert.pem'), cert);
  writeFileSync(join(cwd, 'key.pem'), key);
  const tls = { cert: './cert.pem', key: './key.pem' };
  const refused: [object, RegExp, ...string[]][] = [
    [{ mcpServers }, /0\.0\.0\.0 without agents and TLS is refused/, '--host', '0.0.0.0'],
    [{ mcpServers, listen, agents }, /without TLS is refused/],
    [{ mcpServers, listen: proxied }, /without agents and TLS is refused/],
    [{ mcpServers, listen: proxied, agents, unknownCallers: 'allow' }, /without refusing unknown callers is refused/],
    [{ mcpServers, listen: { host: '::' }, tls }, /:: without agents and TLS is refused/],
    [{ mcpServers, control: listen, agents, tls }, /the control listener on 0\.0\.0\.0 without TLS is refused/],
  ];
  const refusals = refused.map(async ([config, words, ...flags]) => {
    const { code, out, err } = await run(config, ...flags);
    assert.equal(code, 1, out + err);
    assert.match(out + err, words);
    assert.match(out + err, /fix:/);
  });
  const allowed: [object, ...string[]][] = [
    [{ mcpServers, listen: proxied, agents }],
    [{ mcpServers, listen, agents, tls }],
    [{ mcpServers, listen, control: listen }, '--insecure'],
    [{ mcpServers, listen: { ...listen, insecure: true } }],
  ];
  const listening = allowed.map(async ([config, ...flags]) => {
    const { code, out, err } = await run(config, ...flags);
    assert.match(out, /on all addresses of this machine/, JSON.stringify({ config, code, out, err }));
  });
  await Promise.all([...refusals, ...listening]);
});

test('allowedHosts and allowedOrigins admit only named and local ones; only named origins get CORS', async (t) => {
  const config = {
    mcpServers: { s: manySided('s') },
    listen: { allowedHosts: ['mcp.example.com'], allowedOrigins: ['https://app.example.com'] },
  };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  const post = (headers: Record<string, string>) =>
    send(gateway.mcpUrl, 'POST', { 'content-type': 'application/json', accept: 'application/json', ...headers }, PING);
  for (const host of ['mcp.example.com', 'localhost', '127.0.0.1']) {
    assert.ok((await post({ host })).status < 401, host);
  }
  assert.equal((await post({ host: 'evil.example.com' })).status, 403);
  const good = { origin: 'https://app.example.com' };
  const answer = await post(good);
  assert.equal(answer.headers['access-control-allow-origin'], good.origin);
  assert.match(answer.headers['access-control-expose-headers'] ?? '', /mcp-session-id/i);
  const preflight = await send(gateway.mcpUrl, 'OPTIONS', {
    ...good,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type,mcp-session-id',
  });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers['access-control-allow-origin'], good.origin);
  assert.match(preflight.headers['access-control-allow-headers'] ?? '', /mcp-session-id/i);
  const evil = await post({ origin: 'https://evil.example.com' });
  assert.deepEqual([evil.status, evil.headers['access-control-allow-origin']], [403, undefined]);
  const local = await post({ origin: 'http://localhost:3000' });
  assert.ok(local.status < 401 && local.headers['access-control-allow-origin'] === undefined);
});

test('S2.20 S4.1 check:B8 requests of real clients: Codex probes eight times, Gemini names no version, the SDK falls back', async (t) => {
  const gateway = await RunningGateway.start({ config: { mcpServers: { s: manySided('s') } } });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const { origin } = new URL(gateway.mcpUrl);
  const from = performance.now();
  for (const path of [
    '/mcp',
    '/.well-known/oauth-protected-resource/mcp',
    '/.well-known/oauth-protected-resource',
    '/mcp/.well-known/oauth-protected-resource',
    '/.well-known/oauth-authorization-server/mcp',
    '/.well-known/oauth-authorization-server',
    '/.well-known/openid-configuration/mcp',
    '/mcp/.well-known/openid-configuration',
    '/mcp/.well-known/oauth-authorization-server',
  ]) {
    const reply = await send(`${origin}${path}`, 'GET', { accept: '*/*', 'mcp-protocol-version': '2024-11-05' });
    assert.ok([404, 405].includes(reply.status), `${path}: ${reply.status}`);
  }
  assert.ok(performance.now() - from < 3_000);
  const codex = await WireClient.open(gateway.mcpUrl, { revision: '2025-06-18' });
  const { tools } = await codex.result('tools/list', { _meta: { progressToken: 0 } });
  assert.equal(tools.length, 10);
  assert.equal((await send(gateway.mcpUrl, 'DELETE', { 'mcp-session-id': codex.sessionId! })).status, 204);
  assert.equal((await codex.request('tools/list')).status, 404);

  const gemini = await WireClient.open(gateway.mcpUrl, { revision: '2025-06-18' });
  const body = JSON.stringify({ jsonrpc: '2.0', id: 9, method: 'tools/list' });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const unversioned = await send(gateway.mcpUrl, 'POST', { ...headers, 'mcp-session-id': gemini.sessionId! }, body);
  assert.equal(unversioned.status, 200);
  const sessionless = await send(gateway.mcpUrl, 'POST', headers, body);
  assert.equal(sessionless.status, 400);

  // A client that sends a future revision, or none, gets 400, and then opens a session instead.
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2027-05-05',
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const discover = (params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'server/discover', params });
  const future = { ...headers, 'mcp-protocol-version': '2027-05-05', 'mcp-method': 'server/discover' };
  const tooNew = await send(gateway.mcpUrl, 'POST', future, discover({ _meta: meta }));
  assert.deepEqual([tooNew.status, tooNew.json.error.code], [400, -32022]);
  assert.ok(tooNew.json.error.data.supported.includes('2026-07-28'));
  assert.equal((await send(gateway.mcpUrl, 'POST', headers, discover({}))).status, 400);
  await WireClient.open(gateway.mcpUrl);

  const batch = await WireClient.open(gateway.mcpUrl, { revision: '2025-03-26' });
  const two = [1, 2].map((id) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 's__echo', arguments: { text: `${id}` } },
  }));
  const answers = await send(
    gateway.mcpUrl,
    'POST',
    { ...headers, 'mcp-session-id': batch.sessionId! },
    JSON.stringify(two),
  );
  assert.equal(answers.status, 200);
  for (const { id } of two) assert.match(answers.text, new RegExp(`"text":"${id}"`));
});

test('an unused session ends, and its process with it', async (t) => {
  const config = { mcpServers: { s: manySided('s') }, sessions: { idleMs: 1_000 } };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  const client = await WireClient.open(gateway.mcpUrl);
  const { pid } = JSON.parse(await client.callText('s__who')) as { pid: number };
  const from = performance.now();
  const alive = (): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  while (alive() && performance.now() - from < 15_000) await sleep(100);
  assert.equal(alive(), false);
  assert.equal((await client.request('tools/list')).status, 404);
});
