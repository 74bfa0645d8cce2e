import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConfigKills } from './config-kills.ts';
import { canKillAtFsync, killAtFsync, violationOf } from './fsync-kills.ts';
import { STEPS } from './run-time-store-steps.ts';

test('fault:F36 a writer killed at the n-th fsync of adding, changing and removing servers, n = 1 to 40, leaves each change complete or absent', async (t) => {
  if (!canKillAtFsync()) {
    t.skip('no strace here');
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-fsync-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  let most = 0;
  for (let n = 1; n <= 40; n++) {
    const { killed, acknowledged, violation } = await killAtFsync(folder, n);
    assert.equal(violation, null, `fsync ${n}`);
    assert.ok(killed, `fsync ${n}: the writer got to its end`);
    most = Math.max(most, acknowledged);
  }
  // Steps 0 to 4 add, change, suspend, add and remove.
  assert.ok(most >= 5, `the 40th fsync is that of step ${most}`);
});

test('fault:F36 the comparison itself notices lost and half-done changes', async (t) => {
  if (!canKillAtFsync()) {
    t.skip('no strace here');
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-fsync-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const whole = await killAtFsync(folder, 60_000);
  assert.deepEqual(whole, { killed: false, acknowledged: STEPS, violation: null });
  const file = join(folder, 'truth-60000.db');
  // Fewer acknowledged steps than the file has, then more steps than an empty file has.
  assert.match((await violationOf(file, STEPS - 3)) ?? '', /holds/);
  assert.match((await violationOf(join(folder, 'none.db'), STEPS)) ?? '', /holds/);
});

test('fault:F36 goal:G3 a gateway killed with -9 at random instants while its servers change loses nothing acknowledged', async () => {
  const run = new ConfigKills(20_261_122);
  try {
    for (let i = 0; i < 6; i++) await run.round();
    await run.finish();
    assert.deepEqual(run.violations, []);
    assert.ok(run.acknowledged > 0, 'nothing was changed');
  } finally {
    run.dispose();
  }
});
