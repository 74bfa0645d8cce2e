import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { MAX_SKEW_MS } from '../../model/clock.ts';
import { hintMessage } from '../calls/frames.ts';
import { KeyRing } from './key-ring.ts';
import { ReplayWindow, Signer } from './signer.ts';

const ONE = 'secret one, of thirty-two bytes or more';
const TWO = 'secret two, of thirty-two bytes or more';
const ANN = '00000000000000aa';
const BOB = '00000000000000bb';

test('keys follow from the secret and their purpose, and do not reveal it', () => {
  const ring = new KeyRing([ONE, TWO]);
  const again = new KeyRing([ONE]);
  const [signing] = ring.keys('bus-signing');
  assert.deepEqual(again.keys('bus-signing')[0], signing);
  const all = [...ring.keys('bus-signing'), ...ring.keys('sealing')];
  assert.equal(new Set(all.map(({ key }) => key.toString('hex'))).size, 4);
  assert.equal(new Set(all.map(({ id }) => id)).size, 4);
  assert.ok(all.every(({ id, key }) => /^[0-9a-f]{8}$/.test(id) && key.length === 32));
  // Other processes and later versions must derive the same key.
  assert.equal(signing!.id, KNOWN_ID);
  assert.throws(() => new KeyRing(['x'.repeat(31)]), /32 bytes, this one 31/);
  assert.throws(() => new KeyRing([ONE, 'short']), /32 bytes/);
  assert.throws(() => new KeyRing([]), RangeError);
});

const KNOWN_ID = '9b225883';

function signed(signer: Signer, subject: string, text: string): Buffer {
  const frame = hintMessage(Buffer.from(text));
  signer.sign(frame, subject);
  return frame;
}

test('a signature is valid for its bytes, its subject, its time, and once', () => {
  const clock = new FakeClock();
  const ann = new Signer(ANN, new KeyRing([ONE]), clock);
  const bob = new Signer(BOB, new KeyRing([ONE]), clock);
  const seen = new ReplayWindow(2 * MAX_SKEW_MS);
  const frame = signed(ann, 'trunkline.a', 'pay');
  const opened = bob.open(frame, 'trunkline.a', seen);
  assert.ok(typeof opened === 'object');
  assert.equal(opened.from, ANN);
  assert.equal(opened.frame.toString('latin1'), '\x07pay');
  assert.equal(bob.open(frame, 'trunkline.a', seen), 'it came before');
  assert.match(String(bob.open(signed(ann, 'trunkline.a', 'x'), 'trunkline.b', seen)), /signature is wrong/);
  const whole = signed(ann, 'trunkline.a', 'pay');
  for (let at = 0; at < whole.length; at++) {
    const changed = Buffer.from(whole);
    changed[at]! ^= 1;
    assert.equal(typeof bob.open(changed, 'trunkline.a', seen), 'string', `byte ${at}`);
    assert.equal(typeof bob.open(whole.subarray(0, at), 'trunkline.a', seen), 'string', `cut at ${at}`);
  }
  assert.equal(typeof bob.open(whole, 'trunkline.a', seen), 'object');
  const stranger = new Signer(ANN, new KeyRing([TWO]), clock);
  assert.match(String(bob.open(signed(stranger, 'trunkline.a', 'x'), 'trunkline.a', seen)), /another cluster/);
});

test('fault:F38 clocks may differ by a minute and no more', async () => {
  const early = new FakeClock(1_000_000_000);
  const late = new FakeClock(1_000_000_000 + MAX_SKEW_MS);
  const ann = new Signer(ANN, new KeyRing([ONE]), early);
  const bob = new Signer(BOB, new KeyRing([ONE]), late);
  const seen = new ReplayWindow(2 * MAX_SKEW_MS);
  assert.equal(typeof bob.open(signed(ann, 's', 'x'), 's', seen), 'object');
  assert.equal(typeof ann.open(signed(bob, 's', 'x'), 's', seen), 'object');
  await late.advance(1_000);
  assert.match(String(bob.open(signed(ann, 's', 'x'), 's', seen)), /61 s behind/);
  assert.match(String(ann.open(signed(bob, 's', 'x'), 's', seen)), /61 s ahead/);
});

test('each number of a sender is accepted once, in any order, and none that is far behind', () => {
  const seen = new ReplayWindow(1_000);
  const order = Array.from({ length: 3_000 }, (_, at) => at ^ 5);
  for (const counter of order) assert.ok(seen.take(ANN, counter, 0), `${counter}`);
  for (const counter of order) assert.ok(!seen.take(ANN, counter, 0), `${counter} again`);
  assert.ok(seen.take(BOB, 1, 0), 'each sender has its own numbers');
  assert.ok(seen.take(ANN, 10_000, 0));
  assert.ok(!seen.take(ANN, 2_999, 0));
  assert.ok(!seen.take(ANN, 10_000 - 4096, 0));
  assert.ok(seen.take(ANN, 10_000 - 4095, 0));
  assert.ok(!seen.take(ANN, 10_000, 0));
});

test('a limited number of senders is remembered, and none is dropped while its messages could be repeated', () => {
  const seen = new ReplayWindow(1_000);
  for (let at = 0; at < 4096; at++) assert.ok(seen.take(`peer ${at}`, 1, 0));
  assert.ok(!seen.take('one too many', 1, 1_000));
  assert.ok(!seen.take('peer 7', 1, 1_000));
  assert.ok(seen.take('peer 7', 2, 1_000));
  assert.ok(seen.take('one too many', 1, 1_001));
  assert.ok(!seen.take('peer 7', 2, 1_001));
});
