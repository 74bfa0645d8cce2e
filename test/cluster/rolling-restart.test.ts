import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FULL, measured } from '../faults/measured.ts';
import { type RollingOptions, rollingRestart } from '../faults/nodes/rolling-restart.ts';

const SEED = Number(process.env['TRUNKLINE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

/** The rate that G8 requires; a normal run, beside other tests, does not reach 200 calls a second. */
const PER_SECOND = FULL ? 200 : 40;

const BALANCERS: Readonly<Record<RollingOptions['balancer'], string>> = {
  proxy: 'behind a plain proxy that asks for readiness',
  failover: 'and clients go to the next where one refuses them',
};

for (const [balancer, words] of Object.entries(BALANCERS)) {
  test(`fault:F33 goal:G8 check:H7 three nodes restart one after the other under load, ${words}: no call fails, none runs twice, streams end in order`, async (t) => {
    t.diagnostic(`seed ${SEED}`);
    const { calls, restarts, exitCodes, failed, violations, leftInMs, streamsCompleted, streamsCut } =
      await rollingRestart({
        seed: SEED,
        rounds: 1,
        perSecond: PER_SECOND,
        balancer: balancer as RollingOptions['balancer'],
      });
    t.diagnostic(`${calls} calls, ${restarts} restarts`);
    assert.deepEqual(failed, []);
    assert.deepEqual(violations, []);
    assert.deepEqual(exitCodes, [], 'all nodes end with 0');
    assert.deepEqual(streamsCut, []);
    assert.ok(streamsCompleted >= 3, `each of three streams was at one of the nodes: ${streamsCompleted} ended`);
    measured(t, 'F33', `from SIGTERM to the end, ${balancer}`, leftInMs, 'ms', 12_000);
  });
}
