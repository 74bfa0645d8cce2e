import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters, styleText } from 'node:util';
import { displayWidth, padOrTruncate, truncate } from './display-width.ts';

test('wide characters take two columns, marks and colours none', () => {
  for (const [text, width] of [
    ['plain', 5],
    ['日本語', 6],
    ['ｆｕｌｌ', 8],
    ['한국', 4],
    ['🚀', 2],
    ['e\u0301', 1],
    ['a\u200bb', 2],
    ['→█…é', 4],
    [styleText('red', 'ab', { validateStream: false }), 2],
  ] as const)
    assert.equal(displayWidth(text), width, text);
});

test('a cut text is never wider than its columns, and ends the colours that it began', () => {
  const text = `${styleText('bold', 'ab日本', { validateStream: false })}語${styleText('red', 'e\u0301f', { validateStream: false })}`;
  assert.equal(truncate(text, 10), text);
  const seen = (columns: number): string => stripVTControlCharacters(truncate(text, columns));
  assert.deepEqual([9, 7, 6, 5, 3, 1, 0].map(seen), ['ab日本語…', 'ab日本…', 'ab日…', 'ab日…', 'ab…', '…', '']);
  for (let columns = 0; columns < 10; columns++) {
    assert.ok(displayWidth(truncate(text, columns)) <= columns);
    assert.deepEqual(truncate(text, columns).match(/\x1b\[\d+m/g), ['\x1b[1m', '\x1b[22m', '\x1b[31m', '\x1b[39m']);
  }
  assert.deepEqual(
    [padOrTruncate('日', 4), padOrTruncate('日', 4, true), padOrTruncate('日本語', 4)],
    ['日  ', '  日', '日… '],
  );
});
