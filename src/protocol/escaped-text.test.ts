import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { endOfEscaped } from './escaped-text.ts';
import { skipString } from './skip.ts';

declare const WebAssembly: { validate(code: Uint8Array): boolean };

test('S2.14 without SIMD instructions the end of a text with escapes is found as well, and the check for them runs once', () => {
  // The test file has its own process and has not used the module yet, so the check sees no SIMD instructions.
  const validate = mock.method(WebAssembly, 'validate', () => false);
  for (const text of ['\\"', '\\\\', `${'x'.repeat(63)}\\"`, '\\"'.repeat(700), `${'\\'.repeat(64)}\\"`]) {
    const bytes = Buffer.from(`"\\"${text}${'y'.repeat(3000)}","next":"${'z'.repeat(1100)}"`);
    assert.equal(skipString(bytes, 0, bytes.length), bytes.indexOf('","next"') + 1);
    assert.equal(endOfEscaped(bytes, 1, bytes.length), null);
  }
  assert.equal(validate.mock.callCount(), 1);
});
