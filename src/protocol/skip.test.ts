import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { endOfEscaped } from './escaped-text.ts';
import { skipString, skipValue } from './skip.ts';

const LONG = 300_000;

test('goal:G12 the known end of a long string equals the searched one', () => {
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
      // A range that ends before the string has no end of it, even if that end is known from a longer range.
      assert.equal(skipString(bytes, 0, length - 1 - cut), -1);
      assert.equal(skipString(bytes.subarray(0, length - 1 - cut), 0, length - 1 - cut), -1);
    }),
    { numRuns: 40 },
  );
});

test('the same position in other memory is another string', () => {
  const long = Buffer.from(`"${'x'.repeat(LONG)}" `);
  const longer = Buffer.from(`"${'x'.repeat(LONG + 7)}" `);
  for (const bytes of [long, longer, long]) assert.equal(skipString(bytes, 0, bytes.length), bytes.length - 1);
});

/** The end of the text by the grammar, a byte at a time. */
function endByBytes(bytes: Buffer, at: number): number {
  for (; at < bytes.length; at++) {
    if (bytes[at] === 0x5c) at++;
    else if (bytes[at] === 0x22) return at + 1;
  }
  return -1;
}

test('S2.14 the end of a text with escapes follows the grammar, across blocks and windows', () => {
  const escapes = fc.constantFrom(
    '\\"',
    '\\\\',
    '\\n',
    '\\\\\\"',
    'é',
    '{',
    '🎉',
    '\\'.repeat(62),
    '\\'.repeat(64),
    '\\"'.repeat(700),
  );
  const piece = fc.oneof(
    escapes,
    fc.nat(3000).map((n) => 'x'.repeat(n)),
    fc.nat(70).map((n) => '\\\\'.repeat(n)),
  );
  let ended = 0;
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), fc.nat(70), fc.boolean(), (pieces, shift, closed) => {
      const text = `${'y'.repeat(shift)}${pieces.join('')}${closed ? '"' : ''}`;
      const bytes = Buffer.from(`"\\"${text},"next":"${'z'.repeat(1100)}`);
      const end = endByBytes(bytes, 1);
      if (end >= 0) ended++;
      assert.equal(skipString(bytes, 0, bytes.length), end);
      assert.equal(endOfEscaped(bytes, 1, bytes.length), end);
      // The search ignores bytes behind the end, and bytes of an earlier search.
      assert.equal(endOfEscaped(bytes, 1, Math.max(1, end - 1)), -1);
    }),
    { numRuns: 400 },
  );
  assert.ok(ended > 100);
});

test('S2.14 a run of backslashes is counted across the ends of blocks and windows', () => {
  for (const before of [0, 1, 40, 63, 64, 65, 1000, 1023, 1024, 3070, 7165]) {
    for (let run = 0; run < 200; run++) {
      const bytes = Buffer.from(`${'x'.repeat(before)}${'\\'.repeat(run)}" and"`);
      const first = before + run + 1;
      assert.equal(endOfEscaped(bytes, 0, bytes.length), run % 2 === 0 ? first : bytes.length, `${before}, ${run}`);
    }
  }
});
