import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PollPace } from './task-waits.ts';

test('proto:C7 the poll interval is never shorter than requested, grows while nothing changes, and a change resets it', () => {
  const pace = new PollPace(() => 0);
  const pauses = [1, 2, 3, 4, 5, 6, 7, 8].map(() => pace.next(100, false));
  assert.deepEqual(pauses, [100, 150, 225, 338, 506, 759, 800, 800]);
  assert.equal(pace.next(100, true), 100);
  assert.equal(pace.next(100, false), 150);
});

test('proto:C7 pauses are jittered upwards, and what the gateway adds to the interval of a server is bounded', () => {
  const late = new PollPace(() => 0.999);
  assert.ok(late.next(1_000, true) > 1_150);
  assert.ok(late.next(1_000, true) < 1_201);
  const pace = new PollPace(() => 0);
  assert.equal(pace.next(0, true), 50);
  assert.equal(pace.next(null, true), 1_000);
  assert.equal(pace.next(50_000, true), 50_000);
  assert.equal(pace.next(50_000, false), 60_000);
  assert.equal(pace.next(300_000, true), 300_000);
  assert.equal(pace.next(300_000, false), 300_000);
});
