import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { userWords } from './user-words.ts';

const MOST = 8_000;

test('the guides for users have at most 8,000 words', () => {
  const words = userWords(join(import.meta.dirname, '..'));
  const sum = [...words.values()].reduce((total, one) => total + one, 0);
  assert.ok(words.get('README.md')! > 100 && sum > 1_000, 'the pages were found');
  assert.ok(sum <= MOST, `${sum} words: ${JSON.stringify(Object.fromEntries(words))}`);
});
