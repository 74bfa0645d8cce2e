import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { stillRandom } from '../../../test/support/still-random.ts';
import { GatewayError, NoLease } from '../../model/gateway-error.ts';
import { restartDelayMs, stateError } from './start-backoff.ts';
import { Supervisor } from './supervisor.ts';

test('fault:F01 a local process waits 1 s, 2 s, then 30 s doubling to 30 min', () => {
  const delays = [1, 2, 3, 4, 5, 20, 1000].map((failures) => restartDelayMs(failures, true, 0) / 1000);
  assert.deepEqual(delays, [1, 2, 30, 60, 120, 1800, 1800]);
});

test('S3.1 a remote server waits 30 s from its first failure, doubling to 30 min', () => {
  const delays = [1, 2, 3, 6, 7, 8].map((failures) => restartDelayMs(failures, false, 0) / 1000);
  assert.deepEqual(delays, [30, 60, 120, 960, 1800, 1800]);
});

test('jitter shortens a delay by at most a fifth', () => {
  for (const unit of [0, 0.25, 0.5, 0.999]) {
    const delay = restartDelayMs(3, true, unit);
    assert.ok(delay <= 30_000 && delay >= 24_000);
  }
});

test('the error of a call to a server that is not up has its state, but not once the call may have run', () => {
  for (const state of ['failed', 'unreachable', 'auth_required', 'misconfigured', 'suspended'] as const) {
    const error = stateError('a', state, null, 5);
    assert.equal(error.data.state, state);
    assert.equal(error.begun().data.state, undefined);
  }
});

test('without a failure the start is immediate', () => {
  assert.equal(restartDelayMs(0, true, 0.5), 0);
});

test('fault:F28 a start refused without a lease is no failure, and is repeated once the node has one', async () => {
  const clock = new FakeClock();
  let held: (() => void) | null = null;
  let wanting = true;
  let starts = 0;
  const ownership = {
    onLeaseAcquired(run: () => void): () => void {
      held = run;
      return () => {
        held = null;
      };
    },
  };
  const launch = async (): Promise<void> => {
    starts++;
    const cause = new NoLease('this node has no lease', { server: 'a' });
    if (wanting) throw new GatewayError('NOT_SENT', 'a could not be started', { cause });
  };
  const supervisor = new Supervisor(
    { server: 'a', local: true, clock, random: stillRandom(), times: { startupMs: 1_000 }, ownership },
    { launch, halt: async () => {}, moved: () => {} },
  );
  await supervisor.start();
  await clock.advance(10 * 60_000);
  assert.deepEqual([supervisor.state, supervisor.consecutiveFailures, supervisor.failing], ['failed', 0, false]);
  assert.equal(starts, 21, 'every 30 s at the most, in case the notification is lost');
  wanting = false;
  held!();
  await settled();
  assert.deepEqual([supervisor.state, starts, held], ['running', 22, null]);
  await clock.advance(60_000);
  assert.equal(starts, 22, 'nothing is planned any more');
});

test('fault:F28 a server that is stopped no longer waits for the lease', async () => {
  const clock = new FakeClock();
  const waiting = new Set<() => void>();
  const ownership = {
    onLeaseAcquired(run: () => void): () => void {
      waiting.add(run);
      return () => void waiting.delete(run);
    },
  };
  const launch = (): Promise<void> => Promise.reject(new NoLease('this node has no lease', { server: 'a' }));
  const supervisor = new Supervisor(
    { server: 'a', local: true, clock, random: stillRandom(), times: { startupMs: 1_000 }, ownership },
    { launch, halt: async () => {}, moved: () => {} },
  );
  await supervisor.start();
  assert.equal(waiting.size, 1);
  await supervisor.stop();
  assert.equal(waiting.size, 0);
});
