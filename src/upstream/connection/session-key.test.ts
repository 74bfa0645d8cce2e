import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientOf } from '../../../test/support/upstream-bench.ts';
import { sessionKey } from './session-key.ts';

test('clients with different handles never share a key, not even with the key of an additional connection', () => {
  const handles = ['x', 'x lane 2', '"x lane 2"', 'x y', 'x  y', '', ' '];
  const keys = handles.flatMap((handle) => {
    const key = sessionKey({ ...clientOf(null, '{}', {}), handle }, 'session', 'stateless');
    return [key, `${key} lane 2`, `${key} lane 3`];
  });
  assert.equal(new Set(keys).size, keys.length);
});
