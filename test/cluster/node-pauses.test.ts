import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FULL, measured } from '../faults/measured.ts';
import { pauseNodes } from '../faults/nodes/node-pauses.ts';

const SEED = Number(process.env['TRUNKLINE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test('fault:F31 nodes freeze under load for longer than their lease: never two owners, nothing is sent on waking, owned processes end, nodes return empty', async (t) => {
  t.diagnostic(`seed ${SEED}`);
  const pauses = FULL ? 5 : 2;
  const result = await pauseNodes({
    seed: SEED,
    pauses,
    pauseMs: FULL ? 30_000 : 5_000,
    clients: FULL ? 24 : 8,
    lateMs: FULL ? 1_000 : 20_000,
    overlapping: FULL,
    say: (text) => t.diagnostic(text),
  });
  assert.equal(result.pauses, pauses);
  assert.deepEqual(result.violations, []);
  assert.deepEqual(result.lost, []);
  assert.deepEqual(result.wrong, []);
  assert.equal(result.executedLate, 0, 'executions by processes from before the pause');
  measured(t, 'F31', 'from waking to the end of what was owned', result.endedMs, 'ms');
  measured(t, 'F31', 'from waking to being ready', result.readyMs, 'ms');
});
