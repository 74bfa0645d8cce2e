import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteGatherer } from './byte-gatherer.ts';

test('the gathered bytes equal the pieces, and so do their edges', () => {
  const size = fc.oneof(fc.nat(40), fc.nat(20_000), fc.integer({ min: 16_000, max: 70_000 }));
  fc.assert(
    fc.property(fc.array(size, { maxLength: 12 }), (sizes) => {
      const gatherer = new ByteGatherer();
      const pieces = sizes.map((length, i) => Buffer.alloc(length, `${i % 10}${length}`));
      for (const piece of pieces) {
        const pooled = Buffer.from(piece);
        if (pooled.length % 2 === 0) gatherer.addCopy(pooled);
        else gatherer.add(pooled);
        // The caller may overwrite bytes that were copied; small pieces are always copied.
        if (pooled.length % 2 === 0 || pooled.length < 16 * 1024) pooled.fill(0);
      }
      const whole = Buffer.concat(pieces);
      assert.equal(gatherer.length, whole.length);
      const { head, tail } = gatherer.edges(1024);
      assert.ok(head.equals(whole.subarray(0, 1024)));
      assert.ok(tail.equals(whole.subarray(-1024)));
      assert.ok(gatherer.take().equals(whole));
      assert.equal(gatherer.length, 0);
      assert.equal(gatherer.take().length, 0);
    }),
    { numRuns: 60 },
  );
});

test('taking the bytes frees the memory of several pieces, but not that of a single one', () => {
  const gatherer = new ByteGatherer(true);
  const pieces = Array.from('abc', (letter) => Buffer.from(new ArrayBuffer(32 * 1024)).fill(letter));
  for (const piece of pieces) gatherer.add(piece);
  const whole = gatherer.take();
  assert.equal(whole.toString(), 'a'.repeat(32 * 1024) + 'b'.repeat(32 * 1024) + 'c'.repeat(32 * 1024));
  assert.deepEqual(
    pieces.map(({ length }) => length),
    [0, 0, 0],
  );
  const single = Buffer.from(new ArrayBuffer(32 * 1024)).fill('d');
  gatherer.add(single);
  assert.equal(gatherer.take(), single);
  assert.equal(single.length, 32 * 1024);
});

test('a huge body is gathered in one block as it comes, unchanged', () => {
  const mib = 1024 * 1024;
  for (const [count, own] of [
    [40, false],
    [90, true],
    [300, true],
  ] as const) {
    const gatherer = new ByteGatherer(own);
    const pieces = Array.from({ length: count }, (_, i) => Buffer.from(new ArrayBuffer(64 * 1024)).fill(i + 1));
    const whole = Buffer.concat(pieces);
    for (const piece of pieces) gatherer.add(piece);
    if (own)
      assert.ok(
        pieces.every(({ length }) => length === 0),
        'the memory of a piece is free once it is copied',
      );
    assert.equal(gatherer.length, whole.length);
    const { head, tail } = gatherer.edges(1024);
    assert.ok(head.equals(whole.subarray(0, 1024)));
    assert.ok(tail.equals(whole.subarray(-1024)));
    const taken = gatherer.take();
    assert.ok(taken.equals(whole));
    assert.ok(taken.buffer.byteLength <= 4 * Math.max(4 * mib, whole.length));
    assert.equal(gatherer.length, 0);
    gatherer.add(Buffer.from('next'));
    assert.equal(gatherer.take().toString(), 'next');
    assert.ok(taken.equals(whole), 'taken bytes are not written to again');
  }
});
