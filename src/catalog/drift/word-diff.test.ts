import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wordDiff } from './word-diff.ts';

test('check:G4 kept, removed and added words; either text can be rebuilt from them', () => {
  assert.deepEqual(wordDiff('Adds two numbers and more', 'Adds three numbers and no more'), [
    { kind: 'same', text: 'Adds ' },
    { kind: 'removed', text: 'two ' },
    { kind: 'added', text: 'three ' },
    { kind: 'same', text: 'numbers and ' },
    { kind: 'added', text: 'no ' },
    { kind: 'same', text: 'more' },
  ]);
  const texts = ['', 'a', ' a b', 'b a', 'a  b\nc ', 'c a b c a', 'a b c'];
  for (const before of texts) {
    for (const after of texts) {
      const runs = wordDiff(before, after);
      const without = (kind: string) =>
        runs
          .filter((run) => run.kind !== kind)
          .map(({ text }) => text)
          .join('');
      assert.equal(without('added'), before);
      assert.equal(without('removed'), after);
    }
  }
});

test('check:G4 cut-off parts of long texts still show that they differ, and the work is bounded', () => {
  const long = 'word '.repeat(10_000);
  assert.deepEqual(
    wordDiff(long, long).map(({ kind }) => kind),
    ['same'],
  );
  assert.ok(wordDiff(long, `${long}!`).some(({ kind }) => kind === 'added'));
  const many = Array.from({ length: 3_000 }, (_, i) => `w${i} `).join('');
  const others = Array.from({ length: 3_000 }, (_, i) => `v${i} `).join('');
  assert.deepEqual(
    wordDiff(many, others).map(({ kind }) => kind),
    ['removed', 'added'],
  );
});
