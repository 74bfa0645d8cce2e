import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CursorCodec } from './cursor.ts';

const codec = new CursorCodec(Buffer.alloc(32, 1));

test('S2.19 check:D3 a cursor says which page of which list of which version, the same each time', () => {
  const content = { version: 'abc_-123', kind: 'prompts' as const, page: 7 };
  const cursor = codec.write(content);
  assert.deepEqual(codec.read(cursor), content);
  assert.equal(codec.write(content), cursor);
});

test('S2.19 a cursor that was altered, made up or is another installation’s is none', () => {
  const cursor = codec.write({ version: 'v', kind: 'tools', page: 1 });
  for (let i = 0; i < cursor.length; i++) {
    const altered = cursor.slice(0, i) + (cursor[i] === 'A' ? 'B' : 'A') + cursor.slice(i + 1);
    assert.equal(codec.read(altered), null, altered);
  }
  assert.equal(codec.read(''), null);
  assert.equal(codec.read('page-2'), null);
  assert.equal(codec.read(`${cursor}=`), null);
  assert.equal(codec.read('A'.repeat(10_000)), null);
  assert.equal(new CursorCodec(Buffer.alloc(32, 2)).read(cursor), null);
});
