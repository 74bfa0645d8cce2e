import assert from 'node:assert/strict';
import { test } from 'node:test';
import { releaseBytes } from './release-bytes.ts';

test('what fills its memory is freed at once', () => {
  const whole = Buffer.from(new ArrayBuffer(64));
  releaseBytes(whole);
  assert.equal(whole.length, 0);
});

test('what is part of something larger is left alone, and so is nothing', () => {
  const whole = Buffer.from(new ArrayBuffer(64)).fill(7);
  releaseBytes(whole.subarray(0, 63));
  releaseBytes(whole.subarray(0, 0));
  releaseBytes(Buffer.alloc(0));
  assert.equal(whole.length, 64);
  assert.ok(whole.every((byte) => byte === 7));
});
