import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkOwners, compareEpochs } from './check-owners.ts';
import type { Executed } from './ledger-entry.ts';

const by = (pid: number, epoch: string | null, session = 's'): Executed => ({
  event: 'executed',
  call: `${session}-${pid}`,
  tool: 'unsafe',
  pid,
  session,
  ...(epoch === null ? {} : { epoch }),
});
const texts = (...entries: Executed[]): string[] =>
  checkOwners([{ event: 'started', pid: 1 }, ...entries], ({ session }) => session!).map(({ text }) => text);

test('one owner after the other, and a process that started again under the same epoch', () => {
  assert.deepEqual(texts(by(1, '7.9'), by(1, '7.9'), by(2, '7.9'), by(3, '7.10'), by(4, '8.1')), []);
});

test('sessions have their own owners', () => {
  assert.deepEqual(texts(by(1, '7.9', 'a'), by(2, '7.8', 'b'), by(1, '7.9', 'a'), by(2, '7.8', 'b')), []);
});

test('an epoch that falls, and one whose incarnation falls', () => {
  assert.deepEqual(texts(by(1, '7.10'), by(2, '7.9')), ['s: executed under 7.9 after 7.10']);
  assert.deepEqual(texts(by(1, '8.1'), by(2, '7.9')), ['s: executed under 7.9 after 8.1']);
});

test('two owners at once: a former owner executes again', () => {
  const twoAtOnce = ['s: process 1 (7.9) executed it after 2 had begun'];
  assert.deepEqual(texts(by(1, '7.9'), by(2, '7.10'), by(1, '7.9')), twoAtOnce);
  assert.deepEqual(texts(by(1, '7.9'), by(2, '7.9'), by(1, '7.9')), twoAtOnce);
});

test('a process without an epoch', () => {
  assert.deepEqual(texts(by(1, null)), ['s: process 1 knows no epoch']);
});

test('epochs are compared as numbers, whatever their size', () => {
  assert.equal(compareEpochs('1789000000000000001.2', '1789000000000000002.1'), -1);
  assert.equal(compareEpochs('1.10', '1.9'), 1);
  assert.equal(compareEpochs('1.10', '1.10'), 0);
});
