import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { processCycles } from '../../../test/support/process-cycles.ts';
import { RecordingLog } from '../../../test/support/stdio-bench.ts';
import { Reaper } from './reaper.ts';

test('check:A12 check:B1 fault:F15 50 start and kill cycles leak no process and no file descriptor', {
  timeout: 60_000,
}, async () => {
  const log = new RecordingLog();
  const reaper = new Reaper({ logger: log });
  await processCycles({ cycles: 3, guard: reaper });
  const descriptors = readdirSync('/proc/self/fd').length;
  const { leaked } = await processCycles({ cycles: 50, lanes: 4, guard: reaper });
  assert.deepEqual(leaked, []);
  assert.ok(readdirSync('/proc/self/fd').length <= descriptors + 5);
  await reaper.close();
  assert.deepEqual(log.entries, []);
});
