import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FULL } from '../faults/measured.ts';
import { BALANCERS, behindBalancer } from '../faults/nodes/behind-balancers.ts';

const SEED = Number(process.env['TRUNKLINE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

for (const balancer of BALANCERS)
  test(`goal:G14 three nodes behind ${balancer}: NATS and PostgreSQL go and come back, nodes restart, and no call that needs neither fails`, async (t) => {
    t.diagnostic(`seed ${SEED}`);
    const result = await behindBalancer({
      seed: SEED,
      balancer,
      natsMs: FULL ? [200, 1_500, 4_000] : [3_500],
      databaseMs: FULL ? 30_000 : 3_000,
      restarts: true,
      lateMs: FULL ? 1_000 : 20_000,
    });
    t.diagnostic(
      `${result.calls} calls: ${result.withoutNats} without NATS, ${result.withoutDatabase} without PostgreSQL, ${result.duringRestarts} during restarts`,
    );
    assert.ok(Math.min(result.withoutNats, result.withoutDatabase, result.duringRestarts) > 0);
    assert.deepEqual(result.failedWithoutNats, []);
    assert.deepEqual(result.failedWithoutDatabase, []);
    assert.deepEqual(result.failedDuringRestarts, []);
    assert.deepEqual(result.leaselessFailed, []);
    assert.deepEqual(result.exitCodes, [0, 0, 0]);
    assert.deepEqual(result.violations, []);
    assert.deepEqual(result.killed, []);
  });
