import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Journal } from './journal.ts';

const ROOMY = { maxEntries: 100, maxBytes: 100_000, maxTotalBytes: 1_000_000 };

function seen(journal: Journal, from: number, topic: string | null = null, max = 100): [string[], boolean] {
  const { entries, lost } = journal.after(from, topic, max);
  return [entries.map(({ json }) => json), lost];
}

test('a reader gets what follows a position, of one topic or of all, in order', () => {
  const journal = new Journal('r', ROOMY);
  for (const [topic, json] of ['a1', 'b1', 'a2', 'b2', 'a3'].map((json) => [json[0]!, json] as const)) {
    journal.push(topic, json);
  }
  assert.deepEqual(seen(journal, 0), [['a1', 'b1', 'a2', 'b2', 'a3'], false]);
  assert.deepEqual(seen(journal, 2), [['a2', 'b2', 'a3'], false]);
  assert.deepEqual(seen(journal, 2, 'b'), [['b2'], false]);
  assert.deepEqual(seen(journal, 0, null, 2), [['a1', 'b1'], false]);
  assert.deepEqual(seen(journal, journal.end), [[], false]);
  assert.deepEqual(seen(journal, 0, 'nobody'), [[], false]);
  assert.deepEqual(
    journal.last('a', 2).map(({ json }) => json),
    ['a2', 'a3'],
  );
  assert.equal(journal.last(null, 0).length, 0);
});

test('a reader that missed overwritten entries learns that they are missing; others do not', () => {
  const journal = new Journal('r', { ...ROOMY, maxEntries: 3 });
  journal.push('quiet', 'q');
  for (let i = 1; i <= 1_000; i++) journal.push('loud', `l${i}`);
  assert.deepEqual(seen(journal, 0, 'loud'), [['l998', 'l999', 'l1000'], true]);
  assert.deepEqual(seen(journal, 0, 'quiet'), [['q'], false]);
  assert.deepEqual(seen(journal, 0), [['q', 'l998', 'l999', 'l1000'], true]);
  assert.deepEqual(seen(journal, journal.end - 3), [['l998', 'l999', 'l1000'], false]);
  assert.deepEqual(seen(journal, journal.end - 4), [['l998', 'l999', 'l1000'], true]);
});

test('bytes are bounded per topic and in total: the topic that was silent longest loses entries first', () => {
  const journal = new Journal('r', { maxEntries: 1_000, maxBytes: 5_000, maxTotalBytes: 12_000 });
  const text = (name: string) => name.padEnd(1_000 - 64, '.');
  for (let i = 0; i < 20; i++) journal.push('a', text(`a${i}`));
  assert.equal(seen(journal, 0, 'a')[0].length, 5);
  for (const topic of ['b', 'a', 'c', 'd']) for (let i = 0; i < 5; i++) journal.push(topic, text(topic));
  const kept = ['a', 'b', 'c', 'd'].map((topic) => seen(journal, 0, topic)[0].length);
  assert.ok(kept[0]! + kept[1]! + kept[2]! + kept[3]! <= 12, String(kept));
  assert.deepEqual([kept[1], kept[3]], [0, 5], String(kept));
  assert.equal(seen(journal, 0, 'b')[1], true, 'a reader of a topic whose entries are gone learns of it');
  assert.equal(seen(journal, journal.end, 'b')[1], false);
  journal.push('b', 'again');
  assert.deepEqual(seen(journal, journal.end - 1, 'b'), [['again'], false]);
});

test('a cursor is valid for the run that issued it', () => {
  const journal = new Journal('abc', ROOMY);
  journal.push('a', '1');
  assert.equal(journal.position(journal.cursor(1)), 1);
  assert.equal(journal.position(journal.cursor(0)), 0);
  for (const wrong of ['abd-1', 'abc-2', 'abc-', '1', '', 'abc--1', 'abc-1e0']) {
    assert.equal(journal.position(wrong), null, wrong);
  }
});

test('listeners get each entry until they stop', () => {
  const journal = new Journal('r', ROOMY);
  let reported = 0;
  const stop = journal.onPush(() => reported++);
  journal.push('a', '1');
  stop();
  journal.push('a', '2');
  assert.equal(reported, 1);
});
