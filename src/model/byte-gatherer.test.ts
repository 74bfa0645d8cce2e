import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteGatherer } from './byte-gatherer.ts';

test('what was gathered is what came, whatever the pieces, and the edges are its edges', () => {
  const size = fc.oneof(fc.nat(40), fc.nat(20_000), fc.integer({ min: 16_000, max: 70_000 }));
  fc.assert(
    fc.property(fc.array(size, { maxLength: 12 }), (sizes) => {
      const gatherer = new ByteGatherer();
      const pieces = sizes.map((length, i) => Buffer.alloc(length, `${i % 10}${length}`));
      for (const piece of pieces) {
        const lent = Buffer.from(piece);
        if (lent.length % 2 === 0) gatherer.addCopy(lent);
        else gatherer.add(lent);
        // What was copied may be written over by whoever gave it; small pieces always are.
        if (lent.length % 2 === 0 || lent.length < 16 * 1024) lent.fill(0);
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

test('what is taken over leaves the memory of its pieces free, but never that of a single one', () => {
  const gatherer = new ByteGatherer();
  const pieces = Array.from('abc', (letter) => Buffer.from(new ArrayBuffer(32 * 1024)).fill(letter));
  for (const piece of pieces) gatherer.add(piece);
  const whole = gatherer.takeOver();
  assert.equal(whole.toString(), 'a'.repeat(32 * 1024) + 'b'.repeat(32 * 1024) + 'c'.repeat(32 * 1024));
  assert.deepEqual(
    pieces.map(({ length }) => length),
    [0, 0, 0],
  );
  const single = Buffer.from(new ArrayBuffer(32 * 1024)).fill('d');
  gatherer.add(single);
  assert.equal(gatherer.takeOver(), single);
  assert.equal(single.length, 32 * 1024);
});
