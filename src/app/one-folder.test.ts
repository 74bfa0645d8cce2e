import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CREDENTIAL } from '../../test/support/stored-credential.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';
import { Logger } from '../telemetry/logger.ts';
import type { App } from './app.ts';
import { openApp } from './open-app.ts';
import { secretChanges } from './plane.ts';

async function opened(dataDir: string, state: 'data' | 'instance'): Promise<App> {
  const file = join(dataDir, 'config.json');
  writeFileSync(file, JSON.stringify({ mcpServers: { s: { command: 'nothing', start: 'lazy' } } }));
  const load = { cwd: dataDir, env: {}, files: [file], overrides: { dataDir } };
  const result = await openApp({ load, logger: Logger.silent(), state, follow: false });
  assert.ok(result.ok, JSON.stringify(result));
  return result.app;
}

test('check:G4 the gateways of a data folder share blocked names and suspended servers', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-folder-'));
  const [main, spawned] = [await opened(folder, 'data'), await opened(folder, 'instance')];
  try {
    const isBlocked = ({ components }: App) => components.gateway.drift.guards.isBlocked('s', 'tools', 'rm');
    await main.components.gateway.drift!.block('s', [{ list: 'tools', key: 'rm' }], 'op');
    assert.deepEqual([isBlocked(main), isBlocked(spawned)], [true, false]);
    await spawned.reconcile();
    assert.equal(isBlocked(spawned), true);
    await main.components.runTime.suspend('s');
    await spawned.reconcile();
    assert.equal(spawned.state.servers.get('s')?.enabled, false);
  } finally {
    await Promise.all([main.close('shutdown'), spawned.close('shutdown')]);
    rmSync(folder, { recursive: true, force: true });
  }
});

test('a stored change of a secret is reported as stored if the store fails after it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-folder-'));
  const app = await opened(folder, 'data');
  t.after(async () => {
    await app.close('shutdown');
    rmSync(folder, { recursive: true, force: true });
  });
  const changes = secretChanges(app.components, async () => {
    throw new StoreError('unavailable', 'no such disk');
  });
  const stored = { code: 'outcome_unknown', message: /^the change is stored, .*no such disk/ };
  await assert.rejects(changes.put('k', 'v'), stored);
  assert.deepEqual(
    (await changes.list()).map(({ name }) => name),
    ['k'],
  );
  await assert.rejects(changes.delete('k'), stored);
});

test('a gateway sees logins and logouts at another one of its folder at its next reading, also after a failed one', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-folder-'));
  const [main, spawned] = [await opened(folder, 'data'), await opened(folder, 'instance')];
  t.after(async () => {
    await Promise.all([main.close('shutdown'), spawned.close('shutdown')]);
    rmSync(folder, { recursive: true, force: true });
  });
  const { credentials } = spawned.components;
  const states = () => credentials.list().map(({ server, state }) => [server, state]);
  const owner = { server: 's', principal: null };
  await main.components.credentials.keep(owner, CREDENTIAL);
  await spawned.reconcile();
  assert.deepEqual(states(), [['s', 'connected']]);
  await main.components.credentials.forget(owner);
  const failing = async () => {
    throw new StoreError('unavailable', 'no such disk');
  };
  t.mock.method(credentials, 'refresh', failing, { times: 1 });
  await spawned.reconcile();
  assert.deepEqual(states(), [['s', 'connected']]);
  await spawned.reconcile();
  assert.deepEqual(states(), []);
});
