import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { chaosRun } from './chaos-run.ts';

test('a minute of seeded misfortune: killed servers, churning sessions, stalled readers, rewritten files; the ledger agrees', async (t) => {
  const seed = Number(process.env['CHAOS_SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`seed ${seed}; CHAOS_SEED=${seed} tries the same misfortunes again`);
  const { violations, endings, misfortunes, dead, history } = await chaosRun({
    seed,
    durationMs: 60_000,
    clients: 8,
    everyMs: 700,
    restarts: false,
  });
  t.diagnostic(`${JSON.stringify(endings)} ${JSON.stringify(misfortunes)}`);
  if (violations.length > 0 || dead.length > 0) {
    const file = join(tmpdir(), `trunkline-chaos-${seed}.json`);
    writeFileSync(file, JSON.stringify(history));
    t.diagnostic(`the whole history is in ${file}`);
  }
  assert.deepEqual(violations, []);
  assert.deepEqual(dead, []);
  assert.ok(endings.RESULT > 500, `only ${endings.RESULT} calls succeeded`);
  assert.ok(endings.UNKNOWN > 0, 'no misfortune met a call');
});
