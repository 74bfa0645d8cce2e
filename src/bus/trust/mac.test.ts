import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { Mac } from './signer.ts';

/** RFC 4231, cases 1, 2 and 4: key, data, HMAC-SHA-256. */
const VECTORS = [
  ['0b'.repeat(20), '4869205468657265', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
  [
    '4a656665',
    '7768617420646f2079612077616e7420666f72206e6f7468696e673f',
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  ],
  [
    '0102030405060708090a0b0c0d0e0f10111213141516171819',
    'cd'.repeat(50),
    '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b',
  ],
].map(([key, data, mac]) => ({ key: Buffer.from(key!, 'hex'), data: Buffer.from(data!, 'hex'), mac: mac! }));

test('it is HMAC-SHA-256', () => {
  for (const { key, data, mac } of VECTORS) {
    // The text and its zero are part of what is signed, so that the vectors are compared by way of Node's own.
    assert.equal(createHmac('sha256', key).update(data).digest('hex'), mac);
    assert.equal(hex(new Mac(key), 'a subject', data), reference(key, 'a subject', data, 0, 0));
  }
});

test('the result is the same for short and long messages, whatever was signed before', () => {
  const key = Buffer.alloc(32, 7);
  const mac = new Mac(key);
  for (const length of [0, 1, 57, 16_300, 16_384, 16_385, 70_000, 3]) {
    const bytes = Buffer.alloc(length, 'nearly anything');
    for (const text of ['', 'trunkline.call.00', 'schön 🦉']) {
      assert.equal(hex(mac, text, bytes, 0, 0), reference(key, text, bytes, 0, 0), `${length} ${text}`);
      const [from, to] = [Math.min(25, length), Math.min(57, length)];
      assert.equal(hex(mac, text, bytes, from, to), reference(key, text, bytes, from, to), `${length} ${text} cut`);
    }
  }
});

test('keys are no longer than a block', () => {
  assert.throws(() => new Mac(Buffer.alloc(65)), RangeError);
  const key = Buffer.alloc(64, 3);
  assert.equal(hex(new Mac(key), 's', Buffer.from('x')), reference(key, 's', Buffer.from('x'), 0, 0));
});

function hex(mac: Mac, text: string, bytes: Buffer, gapAt = 0, gapEnd = 0): string {
  return Buffer.from(mac.of(text, bytes, gapAt, gapEnd), 'latin1').toString('hex');
}

function reference(key: Buffer, text: string, bytes: Buffer, gapAt: number, gapEnd: number): string {
  const hmac = createHmac('sha256', key).update(`${text}\0`).update(bytes.subarray(0, gapAt));
  return hmac.update(bytes.subarray(gapEnd)).digest('hex');
}
