import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FilesAnswer } from './files-answer.ts';

test('check:A8 files that are there, that are not, and that are none have answered', async () => {
  await new FilesAnswer().answered([import.meta.filename, '/no/such/file', import.meta.dirname]);
});

test('check:A8 while a file gives no answer nothing is asked a second time, so that no more than one thread waits for it', async () => {
  const looked: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const files = new FilesAnswer((file) => {
    looked.push(file);
    return file === 'hangs' ? promise : Promise.resolve();
  });
  let answered = 0;
  for (let i = 0; i < 3; i++) void files.answered(['a', 'hangs', 'b']).then(() => answered++);
  await new Promise(setImmediate);
  assert.deepEqual([looked, answered], [['a', 'hangs'], 0]);
  resolve();
  await new Promise(setImmediate);
  assert.deepEqual([looked, answered], [['a', 'hangs', 'b'], 3]);
});
