import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { ThrottledTask } from './throttled-task.ts';

test('a task runs at once while it is short; after a long run, requests wait and share one run', async () => {
  const clock = new FakeClock();
  let takes = 0;
  let runs = 0;
  const paced = new ThrottledTask(clock, () => {
    clock.skip(takes);
    runs++;
  });
  for (let at = 0; at < 3; at++) paced.schedule();
  assert.deepEqual([runs, paced.pending], [3, false]);
  takes = 5;
  for (let at = 0; at < 100; at++) paced.schedule();
  assert.deepEqual([runs, paced.pending], [4, true]);
  await clock.advance(149);
  assert.equal(runs, 4);
  await clock.advance(2);
  assert.deepEqual([runs, paced.pending], [5, false]);
  paced.schedule();
  paced.run();
  assert.deepEqual([runs, paced.pending], [6, false]);
  takes = 500;
  paced.run();
  paced.schedule();
  await clock.advance(1_990);
  assert.equal(runs, 7);
  await clock.advance(20);
  assert.equal(runs, 8);
  paced.schedule();
  paced.close();
  await clock.advance(3_000);
  assert.equal(runs, 8);
});

test('scheduleThisTurn runs the task once at the end of the turn, unless it ran or was closed meanwhile', async () => {
  const clock = new FakeClock();
  let runs = 0;
  const paced = new ThrottledTask(clock, () => {
    runs++;
    clock.skip(1_000);
  });
  for (let i = 0; i < 100; i++) paced.scheduleThisTurn();
  assert.deepEqual([runs, paced.pending], [0, true]);
  await null;
  assert.deepEqual([runs, paced.pending], [1, false]);
  paced.schedule();
  paced.scheduleThisTurn();
  await null;
  assert.deepEqual([runs, paced.pending], [2, false]);
  paced.scheduleThisTurn();
  paced.run();
  await null;
  assert.equal(runs, 3);
  paced.scheduleThisTurn();
  paced.close();
  await null;
  assert.equal(runs, 3);
});
