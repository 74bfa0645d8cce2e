import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openBrowser, openPrivately } from './open-browser.ts';

test('an empty BROWSER counts as not set', () => {
  // Over ssh there is no other browser.
  const env = { BROWSER: '', SSH_CONNECTION: '192.0.2.1 1 192.0.2.2 22' };
  assert.equal(openBrowser('https://example.com/', env), false);
  assert.equal(openPrivately('https://example.com/', env), false);
});
