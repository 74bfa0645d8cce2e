import assert from 'node:assert/strict';
import { test } from 'node:test';
import { restartDelayMs } from './start-backoff.ts';

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

test('without a failure the start is immediate', () => {
  assert.equal(restartDelayMs(0, true, 0.5), 0);
});
