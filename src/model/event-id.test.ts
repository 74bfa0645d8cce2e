import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventIdOf, readEventId } from './event-id.ts';

test('only the canonical form of an event id is read', () => {
  for (const [stream, seq] of [
    ['g1.ab7', 0],
    ['p0123abcd.0123456789abcdef1', 5],
    ['s', 1_000_035],
    ['with ~ in it', 36 ** 10 - 1],
  ] as const) {
    assert.deepEqual(readEventId(eventIdOf(stream, seq)), { stream, seq });
  }
  const forms = ['5!', '05', '+5', '-5', 'A', ' 5', '5 ', '5.0', '0x5', '', 'zzzzzzzzzzz', '5\n'];
  for (const id of ['', 's', '5', ...forms.map((form) => `s~${form}`)]) assert.equal(readEventId(id), null, id);
});
