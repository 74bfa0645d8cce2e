import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { type Clock, systemClock } from './clock.ts';

const fake = new FakeClock();
const CLOCKS: readonly [name: string, clock: Clock, pass: (ms: number) => Promise<unknown>][] = [
  ["the system's", systemClock, (ms) => sleep(ms)],
  ["the tests'", fake, (ms) => fake.advance(ms)],
];

for (const [name, clock, pass] of CLOCKS) {
  test(`${name} clock: never at once, in order, called off for good, and late timers late`, async () => {
    const ran: string[] = [];
    const after = (delayMs: number, what: string) => clock.after(delayMs, () => ran.push(what));
    after(30, 'thirty');
    after(0, 'zero');
    after(-5, 'past');
    after(2 ** 31, 'in 25 days');
    after(2 ** 40, 'in 35 years');
    const calledOff = after(20, 'called off');
    clock.after(10, () => {
      ran.push('ten');
      calledOff();
      after(0, 'from within');
    });
    assert.deepEqual(ran, []);
    await pass(200);
    assert.deepEqual(new Set(ran.slice(0, 2)), new Set(['zero', 'past']));
    assert.deepEqual(ran.slice(2), ['ten', 'from within', 'thirty']);
  });
}
