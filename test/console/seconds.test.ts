import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CallSecond } from '../../ui/src/api/operations.ts';
import { Seconds } from '../../ui/src/pages/overview/seconds.ts';

function second(time: number, calls: number, [p50, p95, p99]: readonly (number | null)[], errors = 0): CallSecond {
  return { time: new Date(time * 1_000).toISOString(), calls, errors, p50: p50!, p95: p95!, p99: p99! };
}

test('seconds of several nodes are added up; a second without a report has no calls, and five minutes are kept', () => {
  const seconds = new Seconds();
  assert.equal(seconds.all.length, 0);
  seconds.add('a', second(1_000, 99, [1, 5, 9], 2));
  seconds.add('a', second(1_000, 100, [1, 5, 9], 2));
  seconds.add('b', second(1_000, 1, [900, 900, 900], 1));
  seconds.add('a', second(1_002, 0, [null, null, null]));
  seconds.add('b', second(1_002, 10, [3, 4, 5]));
  assert.deepEqual(seconds.all, [
    { time: 1_000, calls: 101, errors: 3, p50: 1, p95: 5, p99: 9 },
    { time: 1_001, calls: 0, errors: 0, p50: null, p95: null, p99: null },
    { time: 1_002, calls: 10, errors: 0, p50: 3, p95: 4, p99: 5 },
  ]);
  seconds.add('a', second(1_301, 1, [1, 1, 1]));
  assert.deepEqual([seconds.all.length, seconds.all[0]?.time], [300, 1_002]);
});
