import assert from 'node:assert/strict';
import { test } from 'node:test';
import { result } from '../../protocol/compose.ts';
import { AnswerStore, CachedAnswer } from './answer-store.ts';

function kept(bytes: number, server = 's', method = 'resources/read', uri = 'u'): CachedAnswer {
  const head = result('0', '{"ttlMs":1,"x":""}', 'stateless').bytes.length;
  const message = result('0', `{"ttlMs":1,"x":"${'x'.repeat(bytes - head)}"}`, 'stateless');
  assert.equal(message.bytes.length, bytes);
  return new CachedAnswer({ server, method, uri, continued: false }, message, { start: 0, end: 0 }, 1);
}

test('the least recently used answer goes first, when there are too many or they are too large', () => {
  const store = new AnswerStore({ entries: 3, bytes: 1_000, bytesOfOne: 500 });
  for (const key of ['a', 'b', 'c']) store.put(key, kept(100));
  assert.ok(store.get('a') !== null);
  store.put('d', kept(100));
  assert.equal(store.get('b'), null, 'a was used since');
  assert.deepEqual([store.size, store.bytes], [3, 300]);
  store.put('e', kept(500));
  store.put('f', kept(500));
  assert.deepEqual([store.size, store.bytes], [2, 1_000]);
  store.put('e', kept(501));
  assert.equal(store.get('e'), null, 'too large for one entry, and the earlier answer is outdated');
  assert.deepEqual([store.size, store.bytes], [1, 500]);
});

test('a notification deletes what it concerns, and nothing else', () => {
  const store = new AnswerStore();
  store.put('1', kept(100, 's', 'resources/read', 'u'));
  store.put('2', kept(100, 's', 'resources/read', 'v'));
  store.put('3', kept(100, 's', 'tools/list'));
  store.put('4', kept(100, 't', 'resources/read', 'u'));
  assert.equal(
    store.deleteAll(({ server, method, uri }) => server === 's' && method === 'resources/read' && uri === 'u'),
    1,
  );
  assert.deepEqual(
    ['1', '2', '3', '4'].map((key) => store.get(key) !== null),
    [false, true, true, true],
  );
  store.clear();
  assert.deepEqual([store.size, store.bytes, store.deleteAll(() => true)], [0, 0, 0]);
});
