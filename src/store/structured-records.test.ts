import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import type { TaskRecord } from '../model/ports.ts';
import { Logger } from '../telemetry/logger.ts';
import { StateFile } from './state-file.ts';
import { SqliteTaskRecords } from './structured-records.ts';

const RECORD: TaskRecord = {
  key: 'k',
  server: 's',
  taskId: 't',
  principal: 'agent:ada',
  sessionId: null,
  client: { revision: '2026-07-28', capabilities: '{"x":1.0}', fingerprint: 'f', info: null, handle: null },
  era: 'stateless',
  wraps: false,
  status: 'working',
  description: Buffer.from('{"n":12345678901234567890}'),
  ttlMs: null,
  pollIntervalMs: 50,
  answer: null,
  startedAt: 1,
  expiresAt: 2,
};

test('a new task is on disk before `put` returns; later changes are written; answers keep their bytes', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-tasks-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'state.db');
  const clock = new FakeClock();
  const open = () => new StateFile({ path, clock, logger: Logger.silent() });
  const onDisk = () => {
    const db = new DatabaseSync(path, { readOnly: true });
    const { count } = db.prepare("SELECT count(*) AS count FROM records WHERE bucket = 'task'").get() as {
      count: number;
    };
    db.close();
    return count;
  };
  const state = open();
  const records = new SqliteTaskRecords(state);
  records.put(RECORD);
  assert.equal(onDisk(), 1);
  const answer = { kind: 'result', era: 'stateless', body: Buffer.from([0x7b, 0xff, 0x7d]) } as const;
  records.put({ ...RECORD, status: 'completed', answer });
  records.put({ ...RECORD, key: 'other' });
  records.delete('other');
  await clock.advance(100);
  assert.equal(onDisk(), 1);
  state.put('task', 'odd', Buffer.from('not a record'));
  state.close();

  const again = open();
  const [found, ...more] = [...new SqliteTaskRecords(again).load()];
  assert.deepEqual(more, []);
  assert.deepEqual(found, { ...RECORD, status: 'completed', answer });
  assert.equal(again.get('task', 'odd'), null);
  again.close();
});
