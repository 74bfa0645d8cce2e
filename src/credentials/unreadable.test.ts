import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CREDENTIAL } from '../../test/support/stored-credential.ts';
import { RecordSealing } from '../gateway/sealer.ts';
import { systemClock } from '../model/clock.ts';
import { systemRandom } from '../model/random.ts';
import { SqliteRunTimeStore } from '../store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../telemetry/logger.ts';
import { ServerCredentials } from './credentials.ts';

test('check:I7 a login that no key decrypts is shown as failed, and can be forgotten or made again', async () => {
  const logger = Logger.silent();
  const records = new SqliteRunTimeStore({ path: ':memory:', clock: systemClock, logger });
  const source = { keys: [Buffer.alloc(32, 1)] };
  const open = async () => {
    const credentials = new ServerCredentials({
      clock: systemClock,
      random: systemRandom,
      logger,
      records,
      desired: { state: { agents: new Map(), servers: new Map() } },
      sealing: new RecordSealing(source, systemRandom),
      fetch: () => fetch,
      clientMetadataUrl: () => null,
      onChange: () => {},
    });
    await credentials.refresh();
    return credentials;
  };
  const before = await open();
  for (const name of ['one', 'two']) await before.keep({ server: name, principal: null }, CREDENTIAL);
  source.keys = [Buffer.alloc(32, 2)];
  const after = await open();
  assert.deepEqual(after.unreadable, ['one', 'two']);
  for (const { state, reason } of after.list()) {
    assert.deepEqual([state, reason], ['failed', 'it cannot be opened, the key that sealed it is gone']);
  }
  await after.keep({ server: 'one', principal: null }, CREDENTIAL);
  await after.forget({ server: 'two', principal: null });
  await after.refresh();
  const shown = after.list().map(({ server, state }) => `${server} ${state}`);
  assert.deepEqual([shown, after.unreadable], [['one connected'], []]);
  await records.close();
});
