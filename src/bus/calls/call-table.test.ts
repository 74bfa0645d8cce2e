import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallTable } from './call-table.ts';
import { type CallId, callOf } from './frames.ts';

test('an id is the same as text and as numbers; an invalid id is none', () => {
  assert.deepEqual(callOf('0a0b0c0dfffffffe'), { family: 0x0a0b0c0d, number: 0xfffffffe });
  for (const text of ['', 'x', '0'.repeat(15), `${'0'.repeat(16)}1`, 'z'.repeat(16), 'A'.repeat(16)])
    assert.equal(callOf(text), null, text);
});

test('calls of many peers with the same numbers are distinguished, and ended ones leave nothing', () => {
  const table = new CallTable<CallId>();
  const calls = Array.from({ length: 300 }, (_, at) => ({ family: at % 100, number: Math.floor(at / 100) }));
  for (const call of calls) table.add(call);
  assert.equal(table.size, 300);
  for (const call of calls) assert.equal(table.get(call.family, call.number), call);
  assert.deepEqual(new Set(table.values()), new Set(calls));
  assert.equal(table.get(7, 3), undefined);
  assert.equal(table.get(100, 1), undefined);
  for (const call of calls) {
    table.delete(call);
    table.delete(call);
    assert.equal(table.get(call.family, call.number), undefined);
  }
  assert.equal(table.size, 0);
  assert.deepEqual(table.values(), []);
});
