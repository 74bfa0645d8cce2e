import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { FULL, measured } from '../faults/measured.ts';
import { leaderLoss } from '../faults/nodes/nats-leader.ts';
import { currentNatsServer } from '../support/nats-server.ts';

/** Longest time of calls that need a lease, in milliseconds; those that may need a new owner wait for the election. */
const SLOWEST_MS = { own: 3_000, forwarded: 45_000, singleton: 45_000, new: 45_000 };

/** One run in the suite; `npm run prove -- faults --rows F43,F44` also takes the newest nats-server, and kills a node too. */
const runs = FULL
  ? [{}, { withNode: true }, { newest: true }, { newest: true, withNode: true }, { nodes: 2 as const }]
  : [{}];

async function proved(t: TestContext, row: string, disk: 'kept' | 'lost'): Promise<void> {
  for (const { newest = false, ...options } of runs) {
    const found = newest ? await currentNatsServer() : { program: 'nats-server' };
    if ('missing' in found) {
      t.diagnostic(found.missing);
      continue;
    }
    const result = await leaderLoss({ disk, ...found, ...options });
    const { calls, leaselessFailed, wrong, failedMs, slowestMs, noneReady, replaced, electionMs } = result;
    const words = JSON.stringify({ newest, ...options });
    t.diagnostic(`${words}: ${calls} calls, election of ${Math.round(electionMs)} ms`);
    assert.deepEqual(leaselessFailed, [], words);
    assert.deepEqual(wrong, [], words);
    assert.equal(noneReady, 0, `${words}: checks of a balancer that found no node`);
    if (FULL) assert.equal(replaced, 0, `${words}: processes that were started again`);
    for (const [kind, atMost] of Object.entries(SLOWEST_MS)) {
      measured(t, row, `calls fail: ${kind}`, failedMs[kind] ?? 0, 'ms', 3_000);
      measured(t, row, `slowest call: ${kind}`, slowestMs[kind] ?? 0, 'ms', atMost);
    }
  }
}

const timeout = 600_000;

test(
  'fault:F43 the leader of the leases among three NATS servers crashes: leases last, and only calls that need a new owner wait for the election',
  {
    timeout,
  },
  (t) => proved(t, 'F43', 'kept'),
);

test(
  'fault:F44 the leader of the leases among three NATS servers crashes and loses its disk: the same holds',
  {
    timeout,
  },
  (t) => proved(t, 'F44', 'lost'),
);
