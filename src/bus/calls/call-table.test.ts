import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallTable } from './call-table.ts';
import type { CallId } from './frames.ts';

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
