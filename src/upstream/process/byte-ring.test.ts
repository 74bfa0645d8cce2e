import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteRing } from './byte-ring.ts';

test('the ring holds the last bytes, in order, whatever the chunks', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(fc.string({ maxLength: 50 })), (capacity, chunks) => {
      const ring = new ByteRing(capacity);
      const all = Buffer.from(chunks.join(''));
      for (const chunk of chunks) ring.push(Buffer.from(chunk));
      assert.deepEqual(ring.contents(), all.subarray(Math.max(0, all.length - capacity)));
      assert.equal(ring.wrapped, all.length >= capacity);
    }),
  );
});
