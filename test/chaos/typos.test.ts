import assert from 'node:assert/strict';
import { test } from 'node:test';
import { typosRun } from './typos.ts';

/** The start of a process takes CPU time; two test files run at once, on any machine. */
const LONGEST_MS = 10_000;

for (const cluster of [false, true]) {
  const where = cluster ? 'two nodes over NATS' : 'one gateway';
  test(`fault:F26 fault:F42 typos: ${where} under load, with every kind of wrong definition: no process ends, no other server is affected`, {
    timeout: 300_000,
  }, async (t) => {
    const seed = Number(process.env['CHAOS_SEED'] ?? Date.now() % 2 ** 31);
    t.diagnostic(`seed ${seed}; CHAOS_SEED=${seed} tries the same again`);
    const result = await typosRun({ seed, durationMs: 20_000, cluster });
    const { wrong, kinds, lacking, changes, longestMs, calls, lists, defects } = result;
    t.diagnostic(JSON.stringify({ ...result, kinds: kinds.length }));
    if (lacking.length > 0) t.diagnostic(`NOT TRIED here: ${lacking.join(', ')}`);
    assert.deepEqual(wrong, []);
    assert.equal(defects, 0, 'a mistake of the gateway itself');
    assert.ok(Object.keys(changes).length > 20, JSON.stringify(changes));
    assert.ok(calls > 200 && lists > 20, `${calls} calls, ${lists} lists`);
    assert.ok(longestMs < LONGEST_MS, `the longest call took ${longestMs} ms`);
  });
}
