import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFailure } from './failure-json.ts';

test('a payload that is no error is read as UNKNOWN', () => {
  for (const text of ['', 'x', 'null', '5', '"x"', '[]', '{}', '{"message":null}', '{"message":{"toString":1}}']) {
    const { code, message } = readFailure(Buffer.from(text));
    assert.equal(code, 'UNKNOWN', text);
    assert.match(message, /cannot be read/, text);
  }
});
