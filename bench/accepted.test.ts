import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accepted } from './accepted.ts';

test('accepted tables replace those of the same scenarios, and the others stay with their run', () => {
  const order = ['one', 'two', 'three'];
  const first = accepted('# Title\n\nWords.\n', ['### one: a: b\n\n| 1 |', '### three: c\n\n| 3 |'], 'run 1', order);
  assert.equal(first, '# Title\n\nWords.\n\n### one: a: b\n\n| 1 |\n\nrun 1\n\n### three: c\n\n| 3 |\n\nrun 1\n');
  const second = accepted(first, ['### two: d\n\n| 2 |', '### one: a: b\n\n| 9 |'], 'run 2', order);
  assert.equal(
    second,
    '# Title\n\nWords.\n\n### one: a: b\n\n| 9 |\n\nrun 2\n\n### two: d\n\n| 2 |\n\nrun 2\n\n### three: c\n\n| 3 |\n\nrun 1\n',
  );
  assert.equal(accepted(second, [], 'run 3', order), second);
});
