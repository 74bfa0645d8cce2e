import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { Sealer, StateSealer } from '../gateway/sealer.ts';
import { systemRandom } from './random.ts';
import { sealingOf } from './sealing.ts';

const OLD = Buffer.alloc(32, 1);
const NEW = Buffer.alloc(32, 2);
const clock = new FakeClock();
const KINDS = {
  'the same text alike': (key: Buffer) => new Sealer(key),
  'under another number each day': (key: Buffer) => new StateSealer({ key, clock, random: systemRandom }),
};

for (const [how, make] of Object.entries(KINDS)) {
  test(`while a key changes, what is sealed ${how} opens under either, and the gateway knows what the first key has not sealed`, () => {
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
    assert.equal(second.outdated?.('c', 'nobody’s'), false, 'what nobody can open cannot be sealed anew');
    assert.equal(after.outdated, undefined);
  });
}
