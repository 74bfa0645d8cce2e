import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { KEPT_MS, VainOpenings } from './vain-openings.ts';

test('a connection that could not be opened counts as such for ten seconds, or until it is', async () => {
  const clock = new FakeClock();
  const vain = new VainOpenings(clock);
  vain.failed('one');
  await clock.advance(KEPT_MS - 1);
  vain.failed('two');
  assert.deepEqual([vain.has('one'), vain.has('two'), vain.has('three')], [true, true, false]);
  await clock.advance(1);
  assert.deepEqual([vain.has('one'), vain.has('two')], [false, true]);
  vain.opened('two');
  assert.equal(vain.has('two'), false);
});

test('however many fail, the last thousand of them are known', () => {
  const vain = new VainOpenings(new FakeClock());
  for (let i = 0; i < 2_000; i++) vain.failed(`${i}`);
  assert.deepEqual([vain.has('900'), vain.has('1000'), vain.has('1999')], [false, true, true]);
});
