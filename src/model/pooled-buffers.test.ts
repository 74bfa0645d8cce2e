import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import {
  claim,
  claimAndReturn,
  clearPool,
  HEADROOM,
  reframed,
  releaseBytes,
  returnClaimed,
  takeBuffer,
} from './pooled-buffers.ts';

const MIB = 1024 * 1024;

describe('pooled buffers', () => {
  test('a returned buffer is issued again, and an old view of it is empty', () => {
    const first = takeBuffer(MIB);
    const view = first.subarray(100, 200);
    assert.equal(first.length, MIB);
    first.fill('a');
    returnClaimed(view);
    assert.equal(view.length, 100, 'a buffer without a claim is not returned');
    assert.ok(claim(view));
    returnClaimed(view);
    assert.equal(view.length, 0);
    assert.equal(first.length, 0);
    const second = takeBuffer(MIB - 1000);
    assert.equal(second.length, MIB - 1000);
    assert.equal(second.toString('latin1', 0, 3), 'aaa');
    assert.notEqual(takeBuffer(MIB - 1000).toString('latin1', 0, 3), 'aaa');
    returnClaimed(first);
    assert.equal(second.toString('latin1', 0, 3), 'aaa');
  });

  test('small bodies and foreign buffers are left alone', () => {
    const small = takeBuffer(1000);
    const own = Buffer.alloc(MIB, 'b');
    for (const bytes of [small, own]) {
      assert.ok(!claim(bytes));
      returnClaimed(bytes);
      assert.ok(bytes.length > 0);
    }
  });

  test('a buffer is not kept for a body of less than half its size; huge ones are released', () => {
    const huge = takeBuffer(64 * MIB);
    assert.ok(claim(huge));
    returnClaimed(huge);
    assert.equal(huge.length, 0);
    const wide = takeBuffer(3 * MIB);
    wide.fill('c');
    assert.ok(claim(wide));
    returnClaimed(wide);
    assert.notEqual(takeBuffer(MIB).toString('latin1', 0, 3), 'ccc');
  });

  test('buffers without use for a while are released', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    clearPool();
    const large = takeBuffer(12 * MIB);
    large.fill('d');
    claimAndReturn(large);
    t.mock.timers.tick(4_000);
    const again = takeBuffer(12 * MIB);
    assert.equal(again.toString('latin1', 0, 3), 'ddd');
    claimAndReturn(again);
    t.mock.timers.tick(6_000);
    assert.notEqual(takeBuffer(12 * MIB).toString('latin1', 0, 3), 'ddd');
  });

  test('a buffer that two parts claim is shared and never returned', () => {
    const both = takeBuffer(MIB);
    assert.ok(claim(both));
    assert.ok(!claim(both.subarray(1)));
    returnClaimed(both);
    assert.equal(both.length, MIB);
  });
});

describe('another frame around bytes of a pooled buffer', () => {
  const part = (text: string) => Buffer.from(text);

  test('the bytes between the ends do not move, and an older view cannot read them', () => {
    const body = takeBuffer(MIB);
    body.fill('m');
    body.write('begin');
    body.write('end', MIB - 3);
    const whole = reframed(body, 5, MIB - 3, part('a longer beginning'), part('!'));
    assert.ok(whole !== null);
    assert.equal(whole.toString(), `a longer beginning${'m'.repeat(MIB - 8)}!`);
    assert.equal(body.length, 0);
    assert.ok(claim(whole), 'it can be claimed as before');
    returnClaimed(whole);
    assert.equal(whole.length, 0);
  });

  test('is not made without room, outside a pooled buffer, or where another part has claimed it', () => {
    const body = takeBuffer(MIB);
    assert.equal(reframed(body, 0, MIB, Buffer.alloc(HEADROOM + 1), part('')), null);
    assert.equal(reframed(body, 0, MIB, part(''), Buffer.alloc(MIB)), null);
    assert.equal(reframed(Buffer.alloc(MIB), 5, MIB, part(''), part('')), null);
    assert.ok(claim(body));
    assert.equal(reframed(body, 5, MIB, part(''), part('')), null);
    assert.equal(body.length, MIB);
  });
});

const module = (name: string): string => JSON.stringify(resolve(import.meta.dirname, name));
const FACTOR = /\[GlobalMemoryController\] factor ([\d.]+)/g;

/**
 * The factors by which, according to V8, the heap with its external memory may grow until the next collection: at five
 * collections in a separate process that has run `what` before. A count of V8's own collections would depend on time.
 */
async function factorsAfter(what: string): Promise<string[]> {
  const program = `
    import { setFlagsFromString } from 'node:v8';
    import { collectGarbage, clearPool, claimAndReturn, takeBuffer } from ${module('pooled-buffers.ts')};
    const comesBy = () => claimAndReturn(takeBuffer(1024 * 1024));
    ${what}
    setFlagsFromString('--trace-gc-verbose');
    for (let i = 0; i < 5; i++) collectGarbage();`;
  const flags = ['--external-memory-accounted-in-global-limit', '--input-type=module', '--eval'];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, program]);
  const factors = Array.from(stdout.matchAll(FACTOR), ([, factor]) => factor!);
  assert.ok(factors.length >= 5, stdout);
  return factors;
}

test('while large bodies pass, memory may grow to three times before V8 collects the heap', async () => {
  const may = async (what: string): Promise<string> => [...new Set(await factorsAfter(what))].join();
  assert.equal(await may('comesBy();'), '3.0');
  assert.equal(await may('comesBy(); comesBy(); clearPool(); comesBy();'), '3.0');
});

test('before large bodies come, and after a while without them, V8 grows the heap by its own rules', async () => {
  // V8 computes the factor at each collection: at most 4, and 1.1 where few objects are allocated.
  for (const what of [
    '',
    'takeBuffer(1024 * 1024);',
    'comesBy(); clearPool();',
    'comesBy(); clearPool(); clearPool();',
  ]) {
    const factors = await factorsAfter(what);
    assert.ok(
      factors.some((factor) => factor !== '3.0'),
      `${what} ${factors.join()}`,
    );
  }
});

test('a buffer filled by its bytes is freed at once', () => {
  const whole = Buffer.from(new ArrayBuffer(64));
  releaseBytes(whole);
  assert.equal(whole.length, 0);
});

test('a part of a larger buffer is not freed, and neither is an empty buffer', () => {
  const whole = Buffer.from(new ArrayBuffer(64)).fill(7);
  releaseBytes(whole.subarray(0, 63));
  releaseBytes(whole.subarray(0, 0));
  releaseBytes(Buffer.alloc(0));
  assert.equal(whole.length, 64);
  assert.ok(whole.every((byte) => byte === 7));
});
