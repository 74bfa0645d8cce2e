import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { App } from '../app/app.ts';
import { serve } from './serve.ts';

test('a start that fails because its ports are in use leaves no event listeners on the process', async (t) => {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-serve-'));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  writeFileSync(join(cwd, 'trunkline.json'), '{"mcpServers":{}}');
  const taken = t.mock.method(App.prototype, 'listen', async () => {
    throw Object.assign(new Error('the port is in use'), { code: 'EADDRINUSE' });
  });
  const listeners = (): number[] =>
    ['SIGTERM', 'SIGINT', 'SIGHUP', 'uncaughtException'].map((event) => process.listenerCount(event));
  const before = listeners();
  const terminal = { out: () => {}, err: () => {}, env: { HOME: cwd }, cwd, version: '1.2.3', ask: null };
  const given = { file: undefined, serverCommand: [], flags: { dataDir: join(cwd, 'data') }, terminal };
  await assert.rejects(serve(given, 3), /the port is in use/);
  assert.equal(taken.mock.callCount(), 3);
  assert.deepEqual(listeners(), before);
});

test('the PORT variable of a platform counts if TRUNKLINE_HOST is set, as in the image, and no flag names a port', async (t) => {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-serve-'));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  writeFileSync(join(cwd, 'trunkline.json'), '{"mcpServers":{},"listen":{"port":4999}}');
  const ports: number[] = [];
  t.mock.method(App.prototype, 'listen', async function (this: App) {
    ports.push(this.state.listen.port);
    throw new Error('enough');
  });
  const start = async (env: NodeJS.ProcessEnv, port?: number): Promise<void> => {
    const terminal = { out: () => {}, err: () => {}, env: { HOME: cwd, ...env }, cwd, version: '1.2.3', ask: null };
    const flags = { dataDir: join(cwd, 'data'), ...(port === undefined ? {} : { port }) };
    await assert.rejects(serve({ file: undefined, serverCommand: [], flags, terminal }), /enough/);
  };
  await start({ PORT: '8080', TRUNKLINE_HOST: '127.0.0.1' });
  await start({ PORT: '8080' });
  await start({ PORT: 'http', TRUNKLINE_HOST: '127.0.0.1' });
  await start({ PORT: '8080', TRUNKLINE_HOST: '127.0.0.1' }, 4998);
  assert.deepEqual(ports, [8080, 4999, 4999, 4998]);
});
