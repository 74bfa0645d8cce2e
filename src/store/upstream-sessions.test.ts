import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { Sealer } from '../gateway/sealer.ts';
import { Logger } from '../telemetry/logger.ts';
import { SqliteUpstreamSessions } from './remembered.ts';
import { StateFile } from './state-file.ts';

test('the upstream sessions of a removed server are deleted; above 10,000 sessions those written first are deleted', () => {
  const state = new StateFile({ path: ':memory:', clock: new FakeClock(), logger: Logger.silent() });
  const record = { identity: 'i', mcpSessionId: 'm', hello: '{}', revision: '2025-11-25', fingerprint: 'f' };
  const sessions = new SqliteUpstreamSessions(state, new Sealer(Buffer.alloc(32, 7)));
  for (const server of ['gone', 'gone2']) sessions.put(server, 'a', record);
  sessions.deleteAll('gone');
  assert.equal(sessions.get('gone', 'a'), null);
  assert.deepEqual(sessions.get('gone2', 'a'), record);
  for (let i = 0; i < 10_000; i++) sessions.put('s', `${i}`, record);
  sessions.put('s', '0', record);
  sessions.put('s', 'last', record);
  assert.deepEqual([sessions.get('gone2', 'a'), sessions.get('s', '1')], [null, null]);
  for (const key of ['0', '2', 'last']) assert.deepEqual(sessions.get('s', key), record, key);
  state.close();
});
