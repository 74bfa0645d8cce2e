import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { RecordSealing, Sealer, StateSealer } from '../gateway/sealer.ts';
import { systemRandom } from './random.ts';
import { sealingOf } from './sealing.ts';

const OLD = Buffer.alloc(32, 1);
const NEW = Buffer.alloc(32, 2);
const clock = new FakeClock();
const KINDS = {
  'with a derived nonce': (key: Buffer) => new Sealer(key),
  'with daily keys': (key: Buffer) => new StateSealer({ key, clock, random: systemRandom }),
};

for (const [how, make] of Object.entries(KINDS)) {
  test(`while a key changes, text sealed ${how} opens under either key, and text that the first key has not sealed is recognised`, () => {
    const before = sealingOf([OLD], make);
    const first = sealingOf([OLD, NEW], make);
    const second = sealingOf([NEW, OLD], make);
    const after = sealingOf([NEW], make);
    const [old, anew] = [first.seal('c', 'text'), second.seal('c', 'text')];
    for (const sealed of [old, anew]) {
      assert.equal(first.open('c', sealed), 'text');
      assert.equal(second.open('c', sealed), 'text');
      assert.equal(second.open('d', sealed), null);
    }
    assert.deepEqual([before.open('c', old), before.open('c', anew)], ['text', null]);
    assert.deepEqual([after.open('c', old), after.open('c', anew)], [null, 'text']);
    assert.deepEqual([second.outdated?.('c', old), second.outdated?.('c', anew)], [true, false]);
    assert.equal(second.outdated?.('c', 'nobody’s'), false, 'text that no key opens cannot be sealed again');
    assert.equal(after.outdated, undefined);
  });
}

test('records are sealed under another nonce each time, say which key opens them, and are bound to their place', () => {
  const source = { keys: [OLD] };
  const sealing = new RecordSealing(source, systemRandom);
  const [one, two] = [sealing.seal('secrets|a', 'text'), sealing.seal('secrets|a', 'text')];
  const nonces = [one, two].map((sealed) => Buffer.from(sealed, 'base64url').toString('hex', 4, 16));
  assert.notEqual(nonces[0], nonces[1]);
  assert.deepEqual([sealing.open('secrets|a', one), sealing.open('secrets|b', one)], ['text', null]);
  source.keys = [NEW, OLD];
  const three = sealing.seal('secrets|a', 'text');
  assert.deepEqual([sealing.open('secrets|a', one), sealing.open('secrets|a', three)], ['text', 'text']);
  assert.deepEqual([sealing.outdated('secrets|a', one), sealing.outdated('secrets|a', three)], [true, false]);
  source.keys = [NEW];
  assert.deepEqual([sealing.open('secrets|a', one), sealing.open('secrets|a', three)], [null, 'text']);
  const bytes = Buffer.from(three, 'base64url');
  for (const at of [0, 5, 20, bytes.length - 1]) {
    const forged = Buffer.from(bytes);
    forged[at]! ^= 1;
    assert.equal(sealing.open('secrets|a', forged.toString('base64url')), null, `byte ${at}`);
  }
});
