import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { systemRandom } from '../model/random.ts';
import { StateSealer } from './sealer.ts';

const DAY = 24 * 60 * 60_000;
const KEY = Buffer.alloc(32, 1);
const sealer = (clock: FakeClock, key = KEY) => new StateSealer({ key, clock, random: systemRandom });

test('proto:S3 a seal opens for its context only, and only unchanged', () => {
  const clock = new FakeClock(100 * DAY);
  const one = sealer(clock);
  const sealed = one.seal('ann', 'text é');
  assert.equal(one.open('ann', sealed), 'text é');
  assert.equal(sealer(clock).open('ann', sealed), 'text é', 'in the next process too');
  assert.equal(one.open('bob', sealed), null);
  assert.equal(sealer(clock, Buffer.alloc(32, 2)).open('ann', sealed), null);
  for (let i = 0; i < sealed.length; i++) {
    const changed = sealed.slice(0, i) + (sealed[i] === 'A' ? 'B' : 'A') + sealed.slice(i + 1);
    assert.equal(one.open('ann', changed), null, `character ${i}`);
  }
  for (const junk of ['', 'x', `${sealed}=`, sealed.slice(0, -1), `${sealed}A`, '😀'.repeat(20)]) {
    assert.equal(one.open('ann', junk), null);
  }
});

test('proto:S3 the same text gets a different seal each time, and no seal shows its contents', () => {
  const one = sealer(new FakeClock(100 * DAY));
  assert.notEqual(one.seal('ann', 'secret text'), one.seal('ann', 'secret text'));
  assert.ok(!Buffer.from(one.seal('ann', 'secret text'), 'base64url').includes('secret'));
});

test('proto:S3 keys rotate: the previous one still opens, the one before that does not', async () => {
  const clock = new FakeClock(100 * DAY + DAY / 2);
  const one = sealer(clock);
  const sealed = one.seal('ann', 'text');
  await clock.advance(DAY);
  assert.equal(one.open('ann', sealed), 'text');
  assert.notEqual(one.seal('ann', 'x').slice(0, 6), sealed.slice(0, 6), 'another key seals now');
  await clock.advance(DAY);
  assert.equal(one.open('ann', sealed), null);
});
