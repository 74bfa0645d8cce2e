import assert from 'node:assert/strict';
import { test } from 'node:test';
import { awayMs } from './public-callers.ts';

test('a call whose deadline falls into a time without NATS gets the time until NATS is back, and no other call does', () => {
  const away = [
    { from: 1_000, to: 3_000 },
    { from: 5_000, to: 5_500 },
  ];
  assert.deepEqual(
    [500, 1_000, 2_900, 3_000, 4_000, 5_100, 6_000].map((at) => awayMs(at, away)),
    [0, 2_000, 100, 0, 0, 400, 0],
  );
});
