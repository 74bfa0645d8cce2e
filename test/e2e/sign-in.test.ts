import assert from 'node:assert/strict';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createGateway } from '../../src/index.ts';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { addressIn, enterCode, redirectedTo, saidTo, signIn } from '../support/consent.ts';
import { PersonTerminal } from '../support/person-terminal.ts';
import type { Json } from '../support/raw-http.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

describe('a user signs in to a server with a real browser and a real authorization server', {
  timeout: 120_000,
}, () => {
  let server: ProtectedServer;
  before(async () => {
    server = await ProtectedServer.start();
  });
  after(() => server.stop());

  test('check:I1 check:I3 goal:G18 trunkline add, trunkline login, trunkline call: nothing else; then logout', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-sign-in-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const data = ['--data-dir', join(folder, 'data')];
    const run = (...args: string[]) => trunkline([...args, ...data], { cwd: folder });
    assert.equal((await run('add', 'web', server.url)).code, 0);
    const before = await run('call', 'web.echo', 'text=hello');
    assert.equal(before.code, 3, before.err);
    assert.match(before.err, /trunkline login web/);

    const login = startTrunkline(['login', 'web', '--no-browser', ...data], { cwd: folder });
    await signIn(await addressIn(login), 'You are signed in to web');
    assert.equal(await login.exited, 0, login.err);
    assert.match(login.out, /signed in\n {2}web {2}connected/);

    const { code, out, err } = await run('call', 'web.echo', 'text=hello');
    assert.equal(code, 0, err);
    assert.match(out, /hello/);
    assert.match((await run('connections')).out, /^web {2}connected {2}renewed by the gateway {2}http/);

    assert.ok(server.issued.length >= 2);
    for (const file of globSync('**/*', { cwd: folder, withFileTypes: true })) {
      if (!file.isFile()) continue;
      const bytes = readFileSync(join(file.parentPath, file.name));
      for (const token of server.issued) assert.ok(!bytes.includes(token), `${file.name} holds a token`);
    }

    assert.equal((await run('logout', 'web')).code, 0);
    assert.equal((await run('call', 'web.echo', 'text=hello')).code, 3);
    assert.equal((await run('logout', 'web')).code, 1);
    const other = await run('logout', 'web', '--principal', 'anonymous');
    assert.match(other.err, /there is no credential for web of anonymous; trunkline connections lists them/);
  });

  test('login in a terminal ends after the browser has come back, without Enter', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-sign-in-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const data = ['--data-dir', join(folder, 'data')];
    assert.equal((await trunkline(['add', 'web', server.url, ...data], { cwd: folder })).code, 0);
    const words = ['login', 'web', '--no-browser', ...data];
    const script = (line: string): string => `${line}; echo "ended with $?"`;
    const terminal = await PersonTerminal.open(words, { cwd: folder, columns: 2000, rows: 30, script });
    t.after(() => terminal.end());
    const seen = await terminal.sees(/^ {2}http\S+$[\s\S]*paste the address/m);
    await signIn(/^ {2}(http\S+)$/m.exec(seen)![1]!, 'You are signed in to web');
    assert.match(await terminal.sees(/ended with \d+/), /signed in\n {2}web {2}connected[\s\S]*ended with 0/);
  });

  test('fault:F20 proto:T2 a running gateway: 32 calls with an expired token are one renewal, and no token shows', async (t) => {
    const gateway = await RunningGateway.start({ config: { mcpServers: { web: { type: 'http', url: server.url } } } });
    t.after(() => gateway.dispose());
    const login = startTrunkline(['login', 'web', '--no-browser', '--data-dir', join(gateway.folder, 'data')], {
      cwd: gateway.folder,
    });
    await signIn(await addressIn(login), 'You are signed in to web');
    assert.equal(await login.exited, 0, login.err);
    await gateway.ready('web');
    const client = await WireClient.open(gateway.mcpUrl);
    const echo = (text: string) => client.request('tools/call', { name: 'web__echo', arguments: { text } });
    assert.equal((await echo('first')).message.result?.content[0].text, 'first');

    await server.expire();
    const before = server.grants.filter((grant) => grant === 'refresh_token').length;
    const answers = await Promise.all(Array.from({ length: 32 }, (_, at) => echo(`call ${at}`)));
    assert.deepEqual(
      answers.map(({ message }) => message.result?.content[0].text ?? JSON.stringify(message)),
      Array.from({ length: 32 }, (_, at) => `call ${at}`),
    );
    assert.equal(server.grants.filter((grant) => grant === 'refresh_token').length - before, 1);

    const shown = [
      JSON.stringify(await gateway.control<Json>('/api/v1/servers')),
      JSON.stringify(await gateway.control<Json>('/api/v1/credentials')),
      await gateway.metrics(),
      gateway.stderr,
    ].join('\n');
    for (const token of server.issued) assert.ok(!shown.includes(token), 'a token shows');
  });

  test('check:I1 S3.7 a program is notified of a required login, and begins, finishes and revokes it', async () => {
    const asked: (string | null)[] = [];
    await using gateway = await createGateway({
      servers: { web: { url: server.url } },
      beforeAuthRequired: ({ name }, { resourceMetadata }) => asked.push(name, resourceMetadata),
    });
    const needed: unknown[] = [];
    gateway.on('loginNeeded', (...event) => needed.push(event));
    await gateway.ready();
    assert.equal(gateway.server('web')?.state, 'auth_required');
    assert.deepEqual(asked, ['web', `${new URL(server.url).origin}/.well-known/oauth-protected-resource/mcp`]);
    await assert.rejects(gateway.logins.begin('nosuch', null), { code: 'INVALID_PARAMS' });
    await assert.rejects(gateway.logins.finish('http://127.0.0.1/cb?code=x&state=y'), { code: 'AUTH_REQUIRED' });

    for (const given of ['code', 'http://127.0.0.1/cb?code=x'])
      await assert.rejects(gateway.logins.finish(given), { code: 'INVALID_REQUEST', message: /the whole address/ });

    const redirected = await redirectedTo(async (uri) => (await gateway.logins.begin('web', uri)).url);
    assert.equal((await gateway.logins.finish(redirected)).state, 'connected');
    await assert.rejects(gateway.logins.finish(redirected), { code: 'AUTH_REQUIRED' }, 'a state is valid only once');
    for (let waited = 0; gateway.server('web')?.state !== 'connected' && waited < 10_000; waited += 50) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const { raw } = await gateway.callTool({ server: 'web', tool: 'echo' }, { text: 'hi' });
    assert.match(raw, /"text":"hi"/);
    const advice = 'sign in: trunkline login web';
    assert.deepEqual(needed, [
      ['web', null, advice],
      ['web', null, null],
    ]);
    assert.equal(await gateway.logins.revoke('web'), true);
    assert.deepEqual(await gateway.logins.list(), []);
    await assert.rejects(gateway.callTool({ server: 'web', tool: 'echo' }, { text: 'hi' }), { code: 'AUTH_REQUIRED' });
  });

  test('check:I3 a login with a code, for a machine without a browser', async (t) => {
    const gateway = await RunningGateway.start({ config: { mcpServers: { web: { type: 'http', url: server.url } } } });
    t.after(() => gateway.dispose());
    const login = startTrunkline(['login', 'web', '--device', '--data-dir', join(gateway.folder, 'data')], {
      cwd: gateway.folder,
    });
    const [, address = '', code = ''] = await saidTo(login, /^Open (\S+) in any browser and enter the code (\S+)$/m);
    await enterCode(address, code);
    assert.equal(await login.exited, 0, login.err);
    await gateway.ready('web');
    const client = await WireClient.open(gateway.mcpUrl);
    const { message } = await client.request('tools/call', { name: 'web__echo', arguments: { text: 'hi' } });
    assert.equal(message.result?.content[0].text, 'hi');
  });
});
