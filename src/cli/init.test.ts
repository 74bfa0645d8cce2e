import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Secrets } from '../credentials/secrets.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';
import { runProgram } from './program.ts';

/** Runs init in an empty folder for a user whose Cursor has a server with a key, and who answers `y`. */
async function init(t: TestContext, { dataDir = '', name = 'trunkline.json', ownData = false }) {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-init-'));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  mkdirSync(join(cwd, '.cursor'));
  const search = { command: 'npx', args: ['-y', 'search'], env: { API_KEY: 'very-secret-value-0' } };
  writeFileSync(join(cwd, '.cursor/mcp.json'), JSON.stringify({ mcpServers: { search } }));
  const folder = join(cwd, 'project');
  mkdirSync(folder);
  const printed = { out: '', err: '' };
  const data = ownData ? [] : ['--data-dir', dataDir === '' ? join(cwd, 'data') : dataDir];
  const code = await runProgram(['init', name, ...data], {
    out: (text) => {
      printed.out += text;
    },
    err: (text) => {
      printed.err += text;
    },
    env: { HOME: cwd, XDG_STATE_HOME: join(cwd, 'state') },
    cwd: folder,
    version: '1.2.3',
    ask: async () => 'y',
  });
  return { code, ...printed, cwd, file: join(folder, name), truth: join(cwd, 'data/truth.db') };
}

test('init keeps the secrets of clients out of the file', async (t) => {
  const { code, err, file, truth } = await init(t, {});
  assert.equal(code, 0, err);
  assert.match(readFileSync(file, 'utf8'), /"API_KEY": "\$\{secret:/);
  assert.ok(existsSync(truth));
});

test('init writes no file if its secrets cannot be stored', async (t) => {
  const { code, err, file } = await init(t, { dataDir: '/proc/none' });
  assert.equal(code, 1);
  assert.match(err, /the data folder \/proc\/none cannot be used/);
  assert.ok(!existsSync(file));
});

test('init reports a full store as the reason, not as an internal error', async (t) => {
  t.mock.method(Secrets.prototype, 'put', async () => {
    throw new StoreError('full', 'the disk is full');
  });
  const { code, err, file } = await init(t, {});
  assert.equal(code, 1, err);
  assert.match(err, /^trunkline: nothing was changed: the disk is full\n$/m);
  assert.doesNotMatch(err, /internal error/);
  assert.ok(!existsSync(file));
});

test('init stores no secrets if the file cannot be written', async (t) => {
  const { code, err, truth } = await init(t, { name: 'no-folder/trunkline.json' });
  assert.equal(code, 1);
  assert.match(err, /there is no such folder/);
  assert.ok(!existsSync(truth));
});

test('init stores the secrets with the gateway of the file that it writes, not of another file there', async (t) => {
  const { code, err, cwd, file } = await init(t, { name: 'other.json', ownData: true });
  assert.equal(code, 0, err);
  const terminal = {
    env: { HOME: cwd, XDG_STATE_HOME: join(cwd, 'state') },
    cwd: join(cwd, 'project'),
    version: '1.2.3',
    ask: null,
  };
  const listed = { out: '', err: '' };
  const listing = await runProgram(['check', file], {
    ...terminal,
    out: (text) => {
      listed.out += text;
    },
    err: (text) => {
      listed.err += text;
    },
  });
  assert.equal(listing, 0, listed.err);
  assert.match(listed.out, /other\.json: ok, 1 server/);
});
