import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { addressIn, consent, enterCode, inBrowser, saidTo } from '../support/consent.ts';
import { DockerEngine, noEngine } from '../support/docker-engine.ts';
import { runProgram } from '../support/run-program.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SERVER = resolve(ROOT, 'test/fixtures/oauth/serve-protected.ts');

/** The files of the installed package, by their path in the container. */
function packageFiles(): Record<string, string> {
  const { packages } = JSON.parse(readFileSync(resolve(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; devOptional?: boolean; optional?: boolean; peer?: boolean }>;
  };
  const needed = Object.entries(packages).filter(
    ([path, { dev, devOptional, optional, peer }]) => path !== '' && !(dev || devOptional || optional || peer),
  );
  const built = process.env['TRUNKLINE_BUILT'] === '1' ? 'dist' : 'src';
  const files = ['package.json', 'bin', 'schema', built, ...needed.map(([path]) => path)];
  return Object.fromEntries(files.map((path) => [`/app/${path}`, resolve(ROOT, path)]));
}

test('check:I3 in a container without a browser: add, login with a code or with an address from elsewhere, call', {
  skip: noEngine() ?? false,
  timeout: 150_000,
}, async (t) => {
  await using engine = await DockerEngine.start();
  const container = await engine.idle('gateway', packageFiles());
  // The server and the browser are processes of this machine in the only network that the container has.
  const inside = await container.enterNetwork();
  const [command, ...rest] = [...inside, process.execPath, SERVER];
  const server = spawn(command!, rest, { stdio: ['ignore', 'pipe', 'ignore'] });
  t.after(() => server.kill());
  const told = { out: '', err: '' };
  server.stdout.setEncoding('utf8').on('data', (text: string) => {
    told.out += text;
  });
  const [, url = ''] = await saidTo(told, /^at (\S+)$/m);
  const typed = (...args: string[]): [string, ...string[]] => {
    const [docker = '', ...words] = container.exec;
    return [docker, ...words, '/bin/node', '/app/bin/trunkline.js', ...args];
  };
  const run = (...args: string[]) => runProgram(typed(...args));
  const call = async (): Promise<string> => {
    const { code, out, err } = await run('call', 'web.echo', 'text=hello');
    return code === 0 ? out : `${code} ${err}`;
  };
  const added = await run('add', 'web', url);
  assert.equal(added.code, 0, added.err);
  assert.match(await call(), /^3 .*trunkline login web/s);

  const [docker, ...words] = typed('login', 'web', '--device');
  const login = spawn(docker, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  const said = { out: '', err: '' };
  login.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.err += text;
  });
  const ended = new Promise((done) => login.once('close', done));
  const [, address = '', code = ''] = await saidTo(said, /^Open (\S+) in any browser and enter the code (\S+)$/m);
  await enterCode(address, code, inside);
  assert.equal(await ended, 0, said.err);
  assert.match(await call(), /hello/);
  assert.equal((await run('logout', 'web')).code, 0);
  assert.match(await call(), /^3 .*trunkline login web/s);

  const begun = await run('login', 'web', '--no-wait');
  assert.equal(begun.code, 0, begun.err);
  const begin = await addressIn(begun);
  let shown = '';
  await inBrowser(async (page) => {
    const unreached = page.waitForEvent('requestfailed', (request) => request.url().startsWith('http://127.0.0.1:'));
    await page.goto(begin);
    await consent(page).catch(() => {});
    shown = (await unreached).url();
  }, inside);
  const finished = await run('login', '--finish', shown);
  assert.equal(finished.code, 0, finished.err);
  assert.match(await call(), /hello/);
});
