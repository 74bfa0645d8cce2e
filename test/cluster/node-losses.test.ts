import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FULL, measured } from '../faults/measured.ts';
import { loseNodes } from '../faults/nodes/node-losses.ts';

const SEED = Number(process.env['TRUNKLINE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test('fault:F30 goal:G5 check:H7 nodes are killed -9 under load: callers elsewhere get UNKNOWN, sessions continue at other nodes, no process is left, nothing runs twice', async (t) => {
  t.diagnostic(`seed ${SEED}`);
  const losses = FULL ? 10 : 2;
  const result = await loseNodes({
    seed: SEED,
    losses,
    clients: FULL ? 64 : 8,
    lateMs: FULL ? 1_000 : 20_000,
    say: (text) => t.diagnostic(text),
  });
  assert.deepEqual(result.violations, []);
  assert.deepEqual(result.lost, []);
  assert.equal(result.left, 0, 'processes that outlived all nodes');
  assert.equal(result.childrenMs.length, losses);
  measured(t, 'F30', 'UNKNOWN after', result.unknownMs, 'ms', 2_000);
  measured(t, 'F30', 'served again, without a new process, after', result.servedMs, 'ms', 3_000);
  measured(t, 'F30', 'a new process begun after', result.rebornMs, 'ms', 3_000);
  measured(t, 'F30', 'and served again by it after', result.spawnMs, 'ms');
  measured(t, 'F30', 'children of the dead node gone after', result.childrenMs, 'ms', 1_000);
});
