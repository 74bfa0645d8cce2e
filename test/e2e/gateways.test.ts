import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';

/** A user with a home folder of their own, and project folders whose file has one server each. */
function user(t: TestContext, ...projects: string[]) {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'trunkline-user-')));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const env = { HOME: home, XDG_STATE_HOME: join(home, 'state') };
  const state = join(home, 'state', 'trunkline');
  for (const name of projects) {
    mkdirSync(join(home, name, 'sub'), { recursive: true });
    writeFileSync(join(home, name, '.mcp.json'), JSON.stringify({ mcpServers: { [name]: manySided(name) } }));
  }
  const run = (folder: string, ...args: string[]) => trunkline(args, { cwd: join(home, folder), env });
  const start = async (folder: string, ...args: string[]) => {
    const gateway = startTrunkline(args, { cwd: join(home, folder), env });
    const stop = async () => {
      gateway.process.kill();
      await gateway.exited;
    };
    t.after(stop);
    await said(gateway, 'Servers');
    const port = Number(/MCP +http:\/\/127\.0\.0\.1:(\d+)\/mcp/.exec(gateway.out)![1]);
    return { port, stop, gateway };
  };
  const names = async (folder: string, ...args: string[]) => {
    const { out } = await run(folder, 'status', '--json', ...args);
    return JSON.parse(out).servers.map(({ name }: { name: string }) => name);
  };
  return { home, env, state, run, start, names };
}

test('each project has its own gateway, found from its folder and named in each answer', async (t) => {
  const { home, run, start, names } = user(t, 'a', 'b', 'empty');
  rmSync(join(home, 'empty', '.mcp.json'));
  symlinkSync(join(home, 'a'), join(home, 'link'));
  // Like the result of `git worktree add`: another folder with the same files.
  mkdirSync(join(home, 'tree'));
  writeFileSync(join(home, 'tree', '.git'), 'gitdir: ../a/.git/worktrees/tree\n');
  writeFileSync(join(home, 'tree', '.mcp.json'), readFileSync(join(home, 'a', '.mcp.json')));

  const [a, b] = [await start('a'), await start('b')];
  assert.notEqual(a.port, b.port);
  for (const [folder, name, { port }] of [
    ['a', 'a', a],
    ['a/sub', 'a', a],
    ['link/sub', 'a', a],
    ['b', 'b', b],
  ] as const) {
    const which = `at http://127.0.0.1:${port}/mcp, serving ${join(home, name, '.mcp.json')}`;
    const status = await run(folder, 'status');
    assert.equal(status.code, 0, status.err);
    assert.ok(status.out.startsWith(`1 of 1 servers ready (running ${which})`), status.out);
    const called = await run(folder, 'call', `${name}.echo`, 'text=hi');
    assert.deepEqual([called.code, called.out, called.err], [0, 'hi\n', `(running ${which})\n`]);
    const json = await run(folder, 'call', `${name}.echo`, 'text=hi', '--json');
    assert.deepEqual([json.code, json.err], [0, '']);
    assert.equal((await run(folder, 'tools')).err, `(running ${which})\n`);
  }
  const added = await run('b/sub', 'add', 'extra', '--', process.execPath, MANY_SIDED);
  assert.ok(added.out.startsWith(`added extra (the gateway at http://127.0.0.1:${b.port}/mcp, serving `), added.out);
  assert.deepEqual(await names('a'), ['a']);
  assert.deepEqual(await names('b'), ['b', 'extra']);

  for (const folder of ['tree', 'empty']) {
    const none = await run(folder, 'logs');
    assert.equal(none.code, 4);
    assert.match(none.err, /no gateway runs (?:here|for .*tree\/\.mcp\.json); start it/);
    for (const name of ['a', 'b']) assert.ok(none.err.includes(`--config ${join(home, name, '.mcp.json')}`), none.err);
  }
  assert.deepEqual(await names('empty', '--config', join(home, 'a', '.mcp.json')), ['a']);

  const second = await run('a/sub', '--port', '0', '--control-port', '0');
  assert.equal(second.code, 1);
  assert.match(second.err, new RegExp(`pid ${a.gateway.process.pid}.*already uses the data folder`));
});

test('folders without a file find the gateway that has none; a gateway of another file is found from its folder', async (t) => {
  const { home, state, start, names, run } = user(t, 'a', 'empty');
  rmSync(join(home, 'empty', '.mcp.json'));
  writeFileSync(join(home, 'empty', 'own.json'), JSON.stringify({ mcpServers: { own: manySided('own') } }));
  const plain = await start('a', '--', process.execPath, MANY_SIDED);
  assert.deepEqual(await names('empty'), ['many-sided']);
  assert.deepEqual(JSON.parse(readFileSync(join(state, 'serves.json'), 'utf8')), { place: null });
  const own = await start('empty', 'own.json');
  assert.notEqual(own.port, plain.port);
  assert.deepEqual(await names('empty/sub'), ['own']);
  const named = await start('a', '--data-dir', join(home, 'named'));
  assert.deepEqual(await names('a/sub'), ['a'], 'found by the file, wherever the data folder is');
  await named.stop();
  assert.deepEqual(readdirSync(join(state, 'elsewhere')), []);
  assert.equal((await run('a', 'status')).code, 4);
});

test('`gateways` lists two gateways of one folder, of which other commands choose neither', async (t) => {
  const { home, start, run } = user(t, 'a');
  rmSync(join(home, 'a', '.mcp.json'));
  for (const name of ['one', 'two']) {
    writeFileSync(join(home, 'a', `${name}.json`), JSON.stringify({ mcpServers: { [name]: manySided(name) } }));
    await start('a', `${name}.json`);
  }
  assert.match((await run('a', 'status')).err, /2 gateways run here/);
  const { code, out, err } = await run('a', 'gateways', '--json');
  assert.equal(code, 0, err);
  const found = JSON.parse(out).gateways.map(({ here, files }: { here: boolean; files: string[] }) => [here, ...files]);
  assert.deepEqual(
    found.sort(),
    ['one', 'two'].map((name) => [false, join(home, 'a', `${name}.json`)]),
  );
});

test('a data folder of an earlier version still serves its file, with the servers added at run time', async (t) => {
  const { state, start, names, run } = user(t, 'a', 'b');
  // A data folder that is named has no serves.json, like the data folders of earlier versions.
  const before = await start('a', '--data-dir', state);
  assert.equal((await run('a', 'add', 'kept', '--', process.execPath, MANY_SIDED)).code, 0);
  await before.stop();
  assert.ok(!readdirSync(state).includes('serves.json'));
  const a = await start('a');
  assert.deepEqual(await names('a'), ['a', 'kept']);
  await a.stop();
  await start('b');
  assert.deepEqual(await names('b'), ['b']);
  await start('a');
  assert.deepEqual(await names('a'), ['a', 'kept']);
});

test('a data folder of an earlier version whose gateway was killed serves the file that it served', async (t) => {
  const { home, state, start, names, run } = user(t, 'a', 'b');
  const before = await start('a', '--data-dir', state);
  assert.equal((await run('a', 'add', 'kept', '--', process.execPath, MANY_SIDED)).code, 0);
  before.gateway.process.kill('SIGKILL');
  await before.gateway.exited;
  await start('b');
  assert.deepEqual(await names('b'), ['b']);
  await start('a');
  assert.deepEqual(await names('a'), ['a', 'kept']);
  assert.deepEqual(JSON.parse(readFileSync(join(state, 'serves.json'), 'utf8')), {
    place: join(home, 'a', '.mcp.json'),
  });
});

test('a gateway keeps its ports for the clients that know them, and reports other ports', async (t) => {
  const { start } = user(t, 'a', 'b', 'c');
  const [a, b] = [await start('a'), await start('b')];
  assert.match(b.gateway.out, new RegExp(`Port \\d+ belongs to .*; this gateway has port ${b.port} from now on`));
  await a.stop();
  const c = await start('c');
  assert.equal(new Set([a.port, b.port, c.port]).size, 3, 'no new gateway gets the port of a stopped one');

  const stranger = createServer();
  await new Promise<void>((done) => stranger.listen(a.port, '127.0.0.1', done));
  const moved = await start('a');
  assert.notEqual(moved.port, a.port);
  assert.match(
    moved.gateway.out,
    new RegExp(`Port ${a.port} belongs to another program; this gateway has port ${moved.port} until its next start`),
  );
  await moved.stop();
  await new Promise((done) => stranger.close(done));
  const back = await start('a');
  assert.equal(back.port, a.port);
  assert.doesNotMatch(back.gateway.out, /belongs to/);
  await b.stop();
  const asked = await start('b', '--port', '0', '--control-port', '0');
  assert.notEqual(asked.port, b.port);
});

test('link reserves the port that it gives to clients for a gateway that does not run yet', async (t) => {
  const { home, start, run } = user(t, 'a', 'b');
  mkdirSync(join(home, '.cursor'));
  const linked = await run('a', 'link', 'cursor', '--yes');
  assert.equal(linked.code, 0, linked.err);
  const [, port] = /127\.0\.0\.1:(\d+)\/mcp/.exec(readFileSync(join(home, '.cursor', 'mcp.json'), 'utf8'))!;
  const b = await start('b');
  assert.notEqual(String(b.port), port);
  assert.equal(String((await start('a')).port), port);
});

test('gateways that start for the first time at the same instant get different ports', async (t) => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const { start } = user(t, ...names);
  const started = await Promise.all(names.map((name) => start(name)));
  assert.equal(new Set(started.map(({ port }) => port)).size, names.length);
});
