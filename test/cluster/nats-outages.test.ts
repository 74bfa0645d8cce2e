import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FULL, measured } from '../faults/measured.ts';
import { outages } from '../faults/nodes/nats-outages.ts';

const SEED = Number(process.env['TRUNKLINE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test('fault:F28 goal:G14 NATS is killed -9 under load and returns: calls that need no lease never fail, others are NOT_SENT, processes are used again, changes are accepted, and all nodes agree', async (t) => {
  t.diagnostic(`seed ${SEED}`);
  const outagesMs = FULL ? [200, 1_500, 4_000] : [300, 4_000];
  const result = await outages({ seed: SEED, outagesMs, lateMs: FULL ? 1_000 : 20_000 });
  t.diagnostic(`${result.calls} calls, ${result.leaselessCalls} without a lease, ${result.refusedMs.length} refused`);
  assert.deepEqual(result.leaselessFailed, []);
  assert.equal(result.noneReady, 0, 'looks of a balancer that found no node');
  assert.deepEqual(result.wrong, []);
  assert.deepEqual(result.violations, []);
  assert.deepEqual(result.lost, []);
  assert.equal(result.writes, outagesMs.length, 'changes that were accepted while NATS was away');
  assert.ok(result.refusedMs.length > 0, 'some calls needed a lease');
  if (FULL) assert.equal(result.ownedEnded, 0, 'processes that no other node had taken and that were not used again');
  measured(t, 'F28', 'from the end of the lease to NOT_SENT', result.refusedMs, 'ms', 2_000);
  measured(t, 'F28', 'from the return of NATS to equal registries', result.equalMs, 'ms', 3_000);
});
