import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestAuthority } from '../support/certificates.ts';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { manySided } from '../support/many-sided.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const TOKEN = 'a-control-token-of-the-operator';
const authority = new TestAuthority();
const stranger = new TestAuthority('Stranger');

/** Files for control listeners that are open to other machines, and for their clients. */
function prepare(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-remote-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const server = authority.issue({ name: 'gateway', hosts: ['localhost', '127.0.0.1', 'ops.example.com'] });
  const client = authority.issue({ name: 'operator' });
  const foreign = stranger.issue({ name: 'operator' });
  const files = {
    ca: file('ca.pem', authority.cert),
    otherCa: file('other.pem', stranger.cert),
    cert: file('client.pem', client.cert),
    key: file('client.key', client.key),
    foreignCert: file('foreign.pem', foreign.cert),
    foreignKey: file('foreign.key', foreign.key),
    token: file('token', `${TOKEN}\n`),
    twoLines: file('two-lines', `${TOKEN}\nmore\n`),
  };
  const tls = { cert: file('server.pem', server.cert), key: file('server.key', server.key) };
  const run = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => trunkline(args, { cwd: folder, env });
  return { files, tls, run, folder };
}

/** A gateway whose control listener is open to other machines. */
async function start(t: TestContext, control: { readonly mutual?: true; readonly [setting: string]: unknown }) {
  const { files, tls, run, folder } = prepare(t);
  const { mutual, ...rest } = control;
  const settings = { host: '0.0.0.0', ...rest, tls: { ...tls, ...(mutual === true ? { clientCa: files.ca } : {}) } };
  const config = { mcpServers: { one: manySided('one') }, control: settings };
  const gateway = await RunningGateway.start({ config, env: { CONTROL_TOKEN: TOKEN } });
  t.after(() => gateway.dispose());
  return { gateway, url: await controlUrl(gateway), files, run, folder };
}

/** The URL of the control listener for other machines. */
async function controlUrl(gateway: RunningGateway): Promise<string> {
  for (;;) {
    const url = /"event":"control_listening","url":"([^"]+)"/.exec(gateway.stderr)?.[1];
    if (url !== undefined) return url;
    await sleep(20);
  }
}

/** The status of a request with these headers. */
function statusAt(url: string, headers: Record<string, string>, client: object = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(
      new URL('/api/v1/gateway', url),
      { ca: authority.cert, servername: 'localhost', headers, ...client },
      (response) => {
        response.resume();
        resolve(response.statusCode!);
      },
    );
    asked.on('error', reject).end();
  });
}

test('a gateway is operated from another machine with TLS and a token of the configuration', async (t) => {
  const { gateway, url, files, run } = await start(t, {
    token: '${env:CONTROL_TOKEN}',
    allowedHosts: ['ops.example.com'],
    publicUrl: 'https://ops.example.com/gateway',
  });
  const good = ['--server', url, '--ca', files.ca];
  const status = await run(['status', '--json', ...good], { TRUNKLINE_TOKEN: TOKEN });
  assert.equal(status.code, 0, status.err);
  assert.match(status.out, /"one"/);
  const called = await run(['call', 'one.echo', 'text=from afar', ...good, '--token-file', files.token]);
  assert.equal(called.code, 0, called.err);
  assert.match(called.out, /from afar/);
  assert.ok(!gateway.stderr.includes(TOKEN));
  // Commands on the machine of the gateway need none of these options.
  const own = await trunkline(['status', '--json', '--data-dir', join(gateway.folder, 'data')], {
    cwd: gateway.folder,
  });
  assert.equal(own.code, 0, own.err);
  const link = await trunkline(['console', '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
  assert.match(link.out, /https:\/\/ops\.example\.com\/gateway\/#\/login\//);

  const bearer = { authorization: `Bearer ${TOKEN}` };
  assert.equal(await statusAt(url, bearer), 200);
  assert.equal(await statusAt(url, { ...bearer, host: 'ops.example.com' }), 200);
  assert.equal(await statusAt(url, { ...bearer, host: 'rebound.example.com' }), 403);
  assert.equal(await statusAt(url, {}), 401);
});

test('the start warns of a control API that is open to other machines only if it is unencrypted', async (t) => {
  const { files, tls } = prepare(t);
  const cwd = join(files.ca, '..');
  for (const [name, control, args] of [
    ['plain', { host: '0.0.0.0' }, ['--insecure']],
    ['encrypted', { host: '0.0.0.0', token: TOKEN, tls }, []],
  ] as const) {
    const file = join(cwd, `${name}.json`);
    writeFileSync(file, JSON.stringify({ mcpServers: { one: manySided('one') }, control }));
    const ports = ['--port', '0', '--control-port', '0', '--data-dir', join(cwd, name)];
    const run = startTrunkline(['--json', ...ports, ...args, file], { cwd });
    t.after(() => run.process.kill('SIGKILL'));
    await said(run, /"event":"listening".*\n/);
    const { warnings = [] } = JSON.parse(run.out.split('\n')[0]!);
    const found = warnings.filter((text: string) => text.includes('unencrypted'));
    assert.equal(found.length, name === 'plain' ? 1 : 0, warnings.join('\n'));
    run.process.kill('SIGTERM');
    await run.exited;
  }
});

test('remove with --server touches nothing below the current folder', async (t) => {
  const { gateway, url, files, run, folder } = await start(t, { token: '${env:CONTROL_TOKEN}' });
  const good = ['--server', url, '--ca', files.ca, '--token-file', files.token];
  const data = ['--data-dir', join(gateway.folder, 'data')];
  const added = await run(['add', 'away', 'http://127.0.0.1:9/mcp', '--no-wait', ...data]);
  assert.equal(added.code, 0, added.err);
  const own = join(folder, 'bundles', 'away', 'of-mine');
  mkdirSync(own, { recursive: true });
  const removed = await run(['remove', 'away', ...good]);
  assert.equal(removed.code, 0, removed.err);
  assert.match(removed.out, /^removed away/);
  assert.ok(existsSync(own));
});

test('errors of --server name the cause and the fix', async (t) => {
  const { url, files, run } = await start(t, { token: '${env:CONTROL_TOKEN}' });
  const token = { TRUNKLINE_TOKEN: TOKEN };
  const { port } = new URL(url);
  const closed = await freePort();
  const web = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!DOCTYPE html>');
  }).listen(0, '127.0.0.1');
  t.after(() => web.close());
  await once(web, 'listening');
  const page = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  const cases: readonly (readonly [readonly string[], NodeJS.ProcessEnv, number, RegExp])[] = [
    [['--server', 'gateway:1'], token, 1, /is not a URL; write the address of the control listener/],
    [['--server', `http://gateway.example.com:${port}`], token, 1, /would send the token unencrypted; use https/],
    [['--server', url], {}, 1, /needs the control token .* TRUNKLINE_TOKEN/],
    [['--server', url, '--token-file', 'nowhere'], {}, 1, /--token-file nowhere cannot be read/],
    [
      ['--server', url, '--token-file', files.twoLines],
      {},
      1,
      /--token-file \S+ holds blanks, line breaks .*alone there/,
    ],
    [['--server', page], token, 4, /what answers at http:\S+ is no gateway: it sends text\/html; name the address/],
    [['--server', url, '--cert', files.cert], token, 1, /--cert and --key belong together/],
    [['--server', url, '--ca', files.ca], { TRUNKLINE_TOKEN: 'another' }, 3, /control\.token/],
    [['--server', url], token, 4, /certificate is not trusted .*--ca <file>/],
    [['--server', url, '--ca', files.otherCa], token, 4, /certificate is not trusted/],
    [['--server', `http://127.0.0.1:${port}`], token, 4, /was not reached: .*needs https/],
    [['--server', `https://127.0.0.1:${closed}`], token, 4, /nothing listens there; check control\.host/],
    [['--server', `https://nowhere.invalid:${port}`], token, 4, /there is no host nowhere\.invalid/],
  ];
  for (const [args, env, code, text] of cases) {
    const ended = await run(['nodes', ...args], env);
    assert.equal(ended.code, code, `${args}: ${ended.err}`);
    assert.match(ended.err, text);
    assert.ok(!ended.err.includes(TOKEN));
  }
});

test('a certificate of control.tls.clientCa proves a program; a browser needs a session too', async (t) => {
  const { url, files, run } = await start(t, { mutual: true });
  const good = ['--server', url, '--ca', files.ca];
  const own = ['--cert', files.cert, '--key', files.key];
  const named = await run(['status', '--json', ...good, ...own]);
  assert.equal(named.code, 0, named.err);
  const foreign = await run(['status', ...good, '--cert', files.foreignCert, '--key', files.foreignKey]);
  assert.equal(foreign.code, 4, foreign.err);
  assert.match(foreign.err, /was not reached/);
  const without = await run(['status', ...good], { TRUNKLINE_TOKEN: TOKEN });
  assert.equal(without.code, 4, without.err);
  const client = { cert: readFileSync(files.cert), key: readFileSync(files.key) };
  assert.equal(await statusAt(url, {}, client), 200);
  // The page of another origin, in a browser that has the certificate.
  assert.equal(await statusAt(url, { 'sec-fetch-site': 'cross-site' }, client), 401);
});

test('another machine lists the nodes of a cluster, and drains another node and the one that it asks', async (t) => {
  const { files, tls, run } = prepare(t);
  const cluster = await ClusterProcesses.start();
  t.after(() => cluster.dispose());
  const control = { host: '0.0.0.0', token: '${env:CONTROL_TOKEN}', tls };
  const start = (name: string) => cluster.node(name, {}, { control }, { env: { CONTROL_TOKEN: TOKEN } });
  const [a, b] = [await start('a'), await start('b')];
  const url = await controlUrl(a.gateway);
  const ask = (...words: string[]) => run(['--server', url, '--ca', files.ca, ...words], { TRUNKLINE_TOKEN: TOKEN });
  await until(async () => {
    const { code, out, err } = await ask('nodes');
    assert.equal(code, 0, err);
    return /^\* a +ready .*\n {2}b +ready .*\n$/.test(out);
  }, 'both nodes to be listed');
  const other = await ask('drain', 'b');
  assert.deepEqual(other, { code: 0, out: 'node b has left\n', err: '' });
  assert.equal(await b.exited, 0);
  const asked = await ask('drain');
  assert.deepEqual(asked, { code: 0, out: 'node a has left\n', err: '' });
  assert.equal(await a.exited, 0);
});
