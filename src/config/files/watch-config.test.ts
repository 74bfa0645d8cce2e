import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigWatch, FileSystemProbe } from './watch-config.ts';

let folder = '';
let watch: ConfigWatch | null = null;
let reported: string[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-watch-'));
  reported = [];
});
afterEach(() => {
  watch?.close();
  rmSync(folder, { recursive: true });
});

function start(...files: string[]): void {
  const paths = files.map((file) => join(folder, file));
  watch = new ConfigWatch(paths, (changed) => reported.push(...changed.map((file) => file.slice(folder.length + 1))), {
    debounceMs: 20,
  });
}

function write(file: string, text: string): void {
  writeFileSync(join(folder, file), text);
}

async function heard(count = 1): Promise<string[]> {
  for (let waited = 0; reported.length < count && waited < 5000; waited += 10) await sleep(10);
  return reported.splice(0);
}

test('a saved file is reported, one saved unchanged is not', async () => {
  write('a', '1');
  write('b', '1');
  start('a', 'b');
  write('b', '1');
  write('other', 'x');
  await sleep(100);
  assert.deepEqual(reported, []);
  write('a', '2');
  assert.deepEqual(await heard(), ['a']);
});

test('a file that is replaced by renaming is reported each time', async () => {
  write('a', '1');
  start('a');
  for (const text of ['2', '3', '4']) {
    write('a.tmp', text);
    renameSync(join(folder, 'a.tmp'), join(folder, 'a'));
    assert.deepEqual(await heard(), ['a']);
  }
});

test('a file that is deleted and created again is reported both times', async () => {
  write('a', '1');
  start('a');
  rmSync(join(folder, 'a'));
  assert.deepEqual(await heard(), ['a']);
  write('a', '1');
  assert.deepEqual(await heard(), ['a']);
});

test('a swapped link of a mounted ConfigMap is reported', async () => {
  for (const [version, text] of [
    ['..v1', '1'],
    ['..v2', '2'],
  ] as const) {
    mkdirSync(join(folder, version));
    write(`${version}/a`, text);
  }
  symlinkSync('..v1', join(folder, '..data'));
  symlinkSync('..data/a', join(folder, 'a'));
  start('a');
  symlinkSync('..v2', join(folder, '..tmp'));
  renameSync(join(folder, '..tmp'), join(folder, '..data'));
  assert.deepEqual(await heard(), ['a']);
  write('..v2/a', '3');
  assert.deepEqual(await heard(), ['a']);
});

test('a file in a folder that comes, goes and returns is reported', async () => {
  start('sub/deep/a');
  for (const text of ['1', '2']) {
    mkdirSync(join(folder, 'sub/deep'), { recursive: true });
    write('sub/deep/a', text);
    assert.deepEqual(await heard(), ['sub/deep/a']);
    rmSync(join(folder, 'sub'), { recursive: true });
    assert.deepEqual(await heard(), ['sub/deep/a']);
  }
});

test('the set of followed files can change', async () => {
  write('a', '1');
  write('b', '1');
  start('a');
  watch!.follow([join(folder, 'b')]);
  write('a', '2');
  write('b', '2');
  assert.deepEqual(await heard(), ['b']);
});

test('a stream of events does not delay the report for ever', async () => {
  write('a', '1');
  start('a');
  write('a', '2');
  const noise = setInterval(() => write('a', '2'), 5);
  try {
    assert.deepEqual(await heard(), ['a']);
  } finally {
    clearInterval(noise);
  }
});

test('check:A8 a changed file is reported only once all files give an answer', async () => {
  write('a', '1');
  const { promise, resolve } = Promise.withResolvers<void>();
  watch = new ConfigWatch([join(folder, 'a')], () => reported.push('a'), {
    debounceMs: 20,
    probe: new FileSystemProbe(() => promise),
  });
  write('a', '2');
  await sleep(200);
  assert.deepEqual(reported, []);
  resolve();
  assert.deepEqual(await heard(), ['a']);
});

test('nothing is reported after close', async () => {
  write('a', '1');
  start('a');
  write('a', '2');
  watch!.close();
  await sleep(100);
  assert.deepEqual(reported, []);
});

test('check:A8 existing, missing and invalid files count as answered', async () => {
  await new FileSystemProbe().waitUntilResponsive([import.meta.filename, '/no/such/file', import.meta.dirname]);
});

test('check:A8 while a file gives no answer it is not read a second time, so that at most one thread waits for it', async () => {
  const looked: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const files = new FileSystemProbe((file) => {
    looked.push(file);
    return file === 'hangs' ? promise : Promise.resolve();
  });
  let answered = 0;
  for (let i = 0; i < 3; i++) void files.waitUntilResponsive(['a', 'hangs', 'b']).then(() => answered++);
  await new Promise(setImmediate);
  assert.deepEqual([looked, answered], [['a', 'hangs'], 0]);
  resolve();
  await new Promise(setImmediate);
  assert.deepEqual([looked, answered], [['a', 'hangs', 'b'], 3]);
});
