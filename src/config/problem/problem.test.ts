import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, constantFrom, property, string } from 'fast-check';
import { suggest } from './problem.ts';

const fold = (word: string): string => word.toLowerCase().replaceAll(/[-_]/g, '');

/** The whole distance table, as textbooks define it. */
function distance(a: string, b: string): number {
  const table = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, j) => i + j));
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const substituted = table[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const ways = [table[i - 1]![j]! + 1, table[i]![j - 1]! + 1, substituted];
      table[i]![j] = Math.min(...ways, swapped ? table[i - 2]![j - 2]! + 1 : Number.POSITIVE_INFINITY);
    }
  }
  return table[a.length]![b.length]!;
}

test('the suggestion is the nearest name, the first of equals, and near', () => {
  const word = string({ unit: constantFrom('a', 'b', 'C', '-', '_'), maxLength: 12 });
  check(
    property(word, array(word, { maxLength: 6 }), (written, candidates) => {
      const wanted = fold(written);
      const most = Math.max(1, Math.floor(wanted.length / 4));
      const away = candidates.map((candidate) => distance(wanted, fold(candidate)));
      const nearest = Math.min(...away);
      const expected = nearest <= most ? candidates[away.indexOf(nearest)]! : null;
      assert.equal(suggest(written, candidates), expected);
    }),
  );
});

test('very long names are not compared', () => {
  assert.equal(suggest('x'.repeat(81), ['x'.repeat(81)]), null);
  assert.equal(suggest('server', ['x'.repeat(100_000), 'sever']), 'sever');
});
