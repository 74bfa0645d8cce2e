import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { chaosRun } from './chaos-run.ts';

const MIB = 1024 * 1024;

test('a minute of seeded faults over ten servers, four of them from npm, and 16 clients of both eras: no wrong result, no lost answer, nothing left over', async (t) => {
  const seed = Number(process.env['CHAOS_SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`seed ${seed}; CHAOS_SEED=${seed} tries the same misfortunes again`);
  const result = await chaosRun({
    seed,
    durationMs: 60_000,
    clients: 16,
    everyMs: 700,
    restartEveryMs: 10_000,
    lateMs: 20_000,
  });
  const { violations, lost, endings, npmEndings, misfortunes, dead, before, after, history } = result;
  t.diagnostic(JSON.stringify({ endings, npmEndings, misfortunes, before, after }));
  if (violations.length + lost.length + dead.length > 0) {
    const file = join(tmpdir(), `trunkline-chaos-${seed}.json`);
    writeFileSync(file, JSON.stringify(history));
    t.diagnostic(`the whole history is in ${file}`);
  }
  assert.deepEqual(violations, []);
  assert.deepEqual(lost, []);
  assert.deepEqual(dead, []);
  assert.ok(endings.RESULT > 300, `only ${endings.RESULT} calls succeeded`);
  assert.ok(npmEndings.RESULT > 100, `only ${npmEndings.RESULT} calls of servers from npm succeeded`);
  assert.ok(endings.UNKNOWN > 0, 'no fault hit a call');
  assert.ok(after.extraProcesses <= 0, `${after.extraProcesses} processes too many`);
  const moreDescriptors = after.descriptors - before.descriptors;
  assert.ok(moreDescriptors <= 8, `${moreDescriptors} descriptors more`);
  const grownMib = (after.heapBytes - before.heapBytes) / MIB;
  assert.ok(grownMib <= 16, `the heap has grown by ${grownMib} MiB`);
});
