import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { KEPT_MS, OpenFailures } from './dispatcher.ts';

test('a connection that could not be opened stays known as such for ten seconds, or until it opens', async () => {
  const clock = new FakeClock();
  const openFailures = new OpenFailures(clock);
  openFailures.failed('one');
  await clock.advance(KEPT_MS - 1);
  openFailures.failed('two');
  assert.deepEqual([openFailures.has('one'), openFailures.has('two'), openFailures.has('three')], [true, true, false]);
  await clock.advance(1);
  assert.deepEqual([openFailures.has('one'), openFailures.has('two')], [false, true]);
  openFailures.opened('two');
  assert.equal(openFailures.has('two'), false);
});

test('the dispatcher remembers the last thousand failed connections', () => {
  const openFailures = new OpenFailures(new FakeClock());
  for (let i = 0; i < 2_000; i++) openFailures.failed(`${i}`);
  assert.deepEqual([openFailures.has('900'), openFailures.has('1000'), openFailures.has('1999')], [false, true, true]);
});
