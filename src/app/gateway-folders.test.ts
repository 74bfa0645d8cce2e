import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gatewayFolder, gatewayIdentity, portsOf, rememberPorts, usualPorts } from './gateway-folders.ts';

function user(t: TestContext) {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'trunkline-folders-')));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const env = { XDG_STATE_HOME: join(home, 'state') };
  const root = join(home, 'state', 'trunkline');
  const folder = (...files: string[]) => gatewayFolder(null, { files, cwd: home, env });
  return { home, env, root, folder };
}

const isFree = async (): Promise<boolean> => true;

test('a named data folder with `~/` is in the home folder, and one of another user stays as written', (t) => {
  const { home } = user(t);
  const named = (dataDir: string) => gatewayFolder(dataDir, { files: [], cwd: home, env: { HOME: home } }).path;
  assert.equal(named('~/tl'), join(home, 'tl'));
  assert.equal(named('~'), home);
  assert.equal(named('~other/tl'), resolve('~other/tl'));
});

test('a file is known by the real path of its folder; what it links to may serve several projects', (t) => {
  const { home } = user(t);
  mkdirSync(join(home, 'a'));
  mkdirSync(join(home, 'b'));
  writeFileSync(join(home, 'shared.json'), '{}');
  for (const name of ['a', 'b']) symlinkSync(join(home, 'shared.json'), join(home, name, '.mcp.json'));
  symlinkSync(join(home, 'a'), join(home, 'link'));
  const of = (...files: string[]) => gatewayIdentity({ files, cwd: home });
  assert.equal(of('link/.mcp.json'), of('a/.mcp.json'));
  assert.notEqual(of('a/.mcp.json'), of('b/.mcp.json'));
  assert.equal(of(), null);
  assert.equal(of('a/.mcp.json', 'b/.mcp.json'), of('b/.mcp.json', 'a/.mcp.json'));
});

test('each project folder with servers in the file of Claude Code has its own gateway', (t) => {
  const { home } = user(t);
  const file = join(home, '.claude.json');
  const mcpServers = { s: { command: 'x' } };
  writeFileSync(file, JSON.stringify({ projects: { '/p/a': { mcpServers }, '/p/b': { mcpServers }, '/p/c': {} } }));
  const of = (cwd: string) => gatewayIdentity({ files: [file], cwd });
  assert.equal(of('/p/a'), of('/p/a/sub'));
  assert.notEqual(of('/p/a'), of('/p/b'));
  assert.equal(of('/p/c'), file);
});

test('a gateway without a file leaves an old folder to the first gateway with a file', (t) => {
  const { root, folder } = user(t);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  writeFileSync(join(root, 'truth.db'), '', { mode: 0o600 });
  folder().prepare();
  assert.equal(folder().path, root);
  folder('a/.mcp.json').prepare();
  assert.equal(folder('a/.mcp.json').path, root);
  assert.notEqual(folder('b/.mcp.json').path, root);
  assert.equal(folder().path, join(root, 'gateways', 'default'), 'the gateway without a file then has its own folder');
});

test('the first gateway gets 4270, even if a command made a folder before; others get and keep unused ports', async (t) => {
  const { env, folder } = user(t);
  // A command that finds no file and no gateway does this.
  assert.equal(folder().acquire(), true);
  const [a, b] = [folder('a/.mcp.json'), folder('b/.mcp.json')];
  assert.deepEqual(await usualPorts(a, env, isFree), { port: 4270, controlPort: 4271 });
  rememberPorts(a, { port: 4270, controlPort: 4271 });
  assert.equal((await usualPorts(b, env, isFree)).port, 4272);
  rememberPorts(b, { port: 4272, controlPort: 4273 });
  assert.equal((await usualPorts(b, env, isFree)).port, 4272);
  assert.equal((await usualPorts(b, env, async ({ port }) => port > 4275)).port, 4276);
  assert.equal((await usualPorts(folder(), env, isFree)).port, 4274);
});

test('files that a full disk left empty are written at the next start, and then stay unchanged', (t) => {
  const { env, root, folder } = user(t);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  for (const name of ['serves.json', 'ports.json']) writeFileSync(join(root, name), '', { mode: 0o600 });
  const first = { port: 4270, controlPort: 4271 };
  for (const ports of [first, { port: 4272, controlPort: 4273 }]) {
    rememberPorts(folder(), ports);
    assert.deepEqual(portsOf(folder(), env), first);
    assert.deepEqual(JSON.parse(readFileSync(join(root, 'serves.json'), 'utf8')), { place: null });
  }
  // The lock of a gateway that has run there and stopped.
  writeFileSync(join(root, 'lock.db'), '', { mode: 0o600 });
  assert.equal(folder().path, root);
  assert.notEqual(folder('a/.mcp.json').path, root);
});

test('an old folder keeps the ports that its clients know', async (t) => {
  const { env, root, folder } = user(t);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  writeFileSync(join(root, 'lock.db'), '', { mode: 0o600 });
  // The gateway of this folder runs for another file.
  writeFileSync(join(root, 'instance.json'), JSON.stringify({ files: ['/other/.mcp.json'] }), { mode: 0o600 });
  assert.equal((await usualPorts(folder('a/.mcp.json'), env, isFree)).port, 4272);
});
