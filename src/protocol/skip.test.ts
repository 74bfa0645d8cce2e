import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { skipString, skipValue } from './skip.ts';

const LONG = 300_000;

test('goal:G12 the end of a long string that is known already is the same as when it is looked for', () => {
  const piece = fc.constantFrom('x', '\\"', '\\\\', '\\u0022', 'é', '[', '}');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.nat(40), fc.nat(3), (pieces, shift, cut) => {
      const text = `"${pieces.join('')}${'y'.repeat(LONG)}${pieces.join('')}"`;
      const memory = Buffer.from(`${' '.repeat(shift)}${text},"next"`);
      const bytes = memory.subarray(shift);
      const length = Buffer.byteLength(text);
      for (const view of [bytes, memory.subarray(Math.max(0, shift - 1)), bytes]) {
        const at = view.indexOf('"');
        assert.equal(skipString(view, at, view.length), at + length);
        assert.equal(skipValue(view, at, at + length), at + length);
      }
      // What ends before the string does has no end of it, whatever is known.
      assert.equal(skipString(bytes, 0, length - 1 - cut), -1);
      assert.equal(skipString(bytes.subarray(0, length - 1 - cut), 0, length - 1 - cut), -1);
    }),
    { numRuns: 40 },
  );
});

test('the same place in other memory is another string', () => {
  const long = Buffer.from(`"${'x'.repeat(LONG)}" `);
  const longer = Buffer.from(`"${'x'.repeat(LONG + 7)}" `);
  for (const bytes of [long, longer, long]) assert.equal(skipString(bytes, 0, bytes.length), bytes.length - 1);
});
