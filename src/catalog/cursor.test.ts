import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CursorCodec } from './cursor.ts';

const codec = new CursorCodec([Buffer.alloc(32, 1)]);

test('S2.19 check:D3 a cursor names page, list and version, the same each time', () => {
  const content = { version: 'abc_-123', kind: 'prompts' as const, page: 7 };
  const cursor = codec.write(content);
  assert.deepEqual(codec.read(cursor), content);
  assert.equal(codec.write(content), cursor);
});

test('while a key changes, a cursor written with either key is valid with both, and not with a third', () => {
  const [old, anew, third] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte)) as [Buffer, Buffer, Buffer];
  const content = { version: 'v', kind: 'tools' as const, page: 1 };
  for (const key of [old, anew]) {
    const cursor = new CursorCodec([key]).write(content);
    assert.deepEqual(new CursorCodec([old, anew]).read(cursor), content);
    assert.deepEqual(new CursorCodec([anew, old]).read(cursor), content);
    assert.equal(new CursorCodec([third]).read(cursor), null);
  }
  assert.equal(new CursorCodec([anew, old]).write(content), new CursorCodec([anew]).write(content));
});

test('S2.19 a cursor that was altered, made up or is another installation’s is invalid', () => {
  const cursor = codec.write({ version: 'v', kind: 'tools', page: 1 });
  for (let i = 0; i < cursor.length; i++) {
    const altered = cursor.slice(0, i) + (cursor[i] === 'A' ? 'B' : 'A') + cursor.slice(i + 1);
    assert.equal(codec.read(altered), null, altered);
  }
  assert.equal(codec.read(''), null);
  assert.equal(codec.read('page-2'), null);
  assert.equal(codec.read(`${cursor}=`), null);
  assert.equal(codec.read('A'.repeat(10_000)), null);
  assert.equal(new CursorCodec([Buffer.alloc(32, 2)]).read(cursor), null);
});
