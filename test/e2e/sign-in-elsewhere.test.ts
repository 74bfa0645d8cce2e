import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { TestAuthority } from '../support/certificates.ts';
import { addressIn, consent, inBrowser, saidTo, signIn } from '../support/consent.ts';
import { freePort } from '../support/free-port.ts';
import { NetworkNamespace } from '../support/network/namespace.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');

test('check:I3 a browser on another machine returns to the gateway, or the user pastes the address that it shows', {
  timeout: 120_000,
}, async (t) => {
  // The gateway stays here; the browser is at the other end of a cable.
  const other = await NetworkNamespace.create();
  if (typeof other === 'string') {
    t.skip(`no network namespaces: ${other}`);
    return;
  }
  t.after(() => other.dispose());
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-elsewhere-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const here = new URL(other.proxy.url).hostname;
  const authority = new TestAuthority();
  const certified = authority.issue({ name: here, hosts: [here] });
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const env = { NODE_EXTRA_CA_CERTS: file('authority.pem', authority.cert) };
  const server = await ProtectedServer.start({ elsewhere: { address: here, certified } });
  t.after(() => server.stop());
  const port = await freePort();
  const listen = { host: here, publicUrl: `https://${here}:${port}`, insecure: true };
  const tls = { cert: file('cert.pem', certified.cert), key: file('key.pem', certified.key) };
  const config = { listen, tls, mcpServers: {} };
  const gateway = await RunningGateway.start({ config, args: ['--port', String(port)], env });
  t.after(() => gateway.dispose());
  const options = { cwd: gateway.folder, env };
  const data = ['--data-dir', join(gateway.folder, 'data')];
  const run = (...args: string[]) => trunkline([...args, ...data], options);
  const calls = async (): Promise<string> => {
    const { code, out, err } = await run('call', 'web.echo', 'text=hello');
    return code === 0 ? out : `${code} ${err}`;
  };
  const added = await run('add', 'web', server.url);
  assert.equal(added.code, 0, added.err);
  assert.match(await calls(), /^3 .*trunkline login web/s);

  const login = startTrunkline(['login', 'web', '--via-gateway', ...data], options);
  await signIn(await addressIn(login), 'The gateway is signed in to web', other.enter);
  assert.equal(await login.exited, 0, login.err);
  assert.match(await calls(), /hello/);
  assert.equal((await run('logout', 'web')).code, 0);
  assert.match(await calls(), /^3 .*trunkline login web/s);

  // As without a public URL: the browser cannot reach the port of the command, and shows an error with the address.
  const command = [process.execPath, BIN, 'login', 'web', ...data].join(' ');
  const terminal = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: gateway.folder,
    env: { ...process.env, ...env, BROWSER: undefined, DISPLAY: undefined, TERM: 'dumb' },
  });
  const said = { out: '', err: '' };
  for (const stream of [terminal.stdout, terminal.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said.out += text;
    });
  }
  const ended = new Promise((done) => terminal.once('exit', done));
  const address = await addressIn(said);
  await saidTo(said, /paste the address/);
  await inBrowser(async (page) => {
    const unreached = page.waitForEvent('requestfailed', (request) => request.url().startsWith('http://127.0.0.1:'));
    await page.goto(address);
    await consent(page).catch(() => {});
    terminal.stdin.write(`${(await unreached).url()}\r`);
  }, other.enter);
  assert.equal(await ended, 0, said.out);
  assert.match(said.out, /signed in/);
  assert.match(await calls(), /hello/);
});
