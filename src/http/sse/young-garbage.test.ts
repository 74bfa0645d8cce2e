import assert from 'node:assert/strict';
import { test } from 'node:test';
import { YoungGarbage } from './stream-wheel.ts';

const MIB = 1024 * 1024;

test('goal:G16 garbage of large messages is collected every 16 MiB, and not all the time', () => {
  let nowMs = 0;
  let collections = 0;
  const garbage = new YoungGarbage(
    () => {
      collections++;
      nowMs += 2;
    },
    () => nowMs,
  );
  for (let i = 0; i < 15; i++) garbage.add(MIB);
  assert.equal(collections, 0);
  garbage.add(MIB);
  assert.equal(collections, 1);
  // It took 2 ms: there is none for the next 60.
  for (let i = 0; i < 64; i++) garbage.add(MIB);
  assert.equal(collections, 1);
  nowMs += 60;
  garbage.add(1);
  assert.equal(collections, 2);
  nowMs += 1_000;
  for (let i = 0; i < 15; i++) garbage.add(MIB);
  assert.equal(collections, 2);
});
