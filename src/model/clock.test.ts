import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { type Clock, SteadyWall, systemClock } from './clock.ts';

const fake = new FakeClock();
interface Passing {
  pass(ms: number): Promise<unknown>;
  /** Blocks the process. */
  stall(ms: number): void;
}

const CLOCKS: readonly [name: string, clock: Clock, passing: Passing][] = [
  [
    "the system's",
    systemClock,
    // A timer set just before the end of the first sleep is due before the end of the second, even on a slow machine.
    {
      pass: (ms) => sleep(ms).then(() => sleep(20)),
      stall: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
    },
  ],
  ["the tests'", fake, { pass: (ms) => fake.advance(ms), stall: (ms) => fake.skip(ms) }],
];

for (const [name, clock, { pass, stall }] of CLOCKS) {
  test(`${name} clock: timers run later, in order, can be cancelled, and late timers run late`, async () => {
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
    // If the process is blocked meanwhile, overdue timers run before the timers that they set.
    assert.equal(ran[2], 'ten');
    assert.deepEqual(new Set(ran.slice(3)), new Set(['from within', 'thirty']));
  });
  test(`${name} clock: timers of one time run in the order of their creation, and one may cancel another and itself`, async () => {
    const ran: string[] = [];
    const ends: (() => void)[] = [];
    for (let i = 0; i < 6; i++) {
      ends[i] = clock.after(20, () => {
        ran.push(`${i}`);
        if (i === 1) ends[3]!();
        if (i === 2) ends[2]!();
        if (i === 4) ends[0]!();
      });
    }
    await pass(100);
    assert.deepEqual(ran, ['0', '1', '2', '4', '5']);
    for (const end of ends) end();
    await pass(20);
    assert.equal(ran.length, 5);
  });

  test(`${name} clock: promises settle between two timers of one time, and a timer made for now runs after both`, async () => {
    const ran: string[] = [];
    clock.after(20, () => {
      ran.push('first');
      void Promise.resolve().then(() => ran.push('promise of the first'));
      clock.after(0, () => ran.push('made by the first'));
    });
    clock.after(20, () => ran.push('second'));
    await pass(100);
    assert.deepEqual(ran, ['first', 'promise of the first', 'second', 'made by the first']);
  });

  test(`${name} clock: a timer runs after its delay, and the time never goes back`, async () => {
    const began = clock.now();
    const seen: number[] = [];
    for (const delayMs of [40, 10, 25]) clock.after(delayMs, () => seen.push(clock.now() - began));
    await pass(200);
    assert.equal(seen.length, 3);
    // Timers of Node may run up to a millisecond early.
    for (const [i, dueMs] of [10, 25, 40].entries()) assert.ok(seen[i]! >= dueMs - 1, `${seen[i]} of ${dueMs}`);
    assert.deepEqual(
      seen,
      [...seen].sort((a, b) => a - b),
    );
  });

  test(`${name} clock: after a standstill all overdue timers run in order, before those that they make`, async () => {
    const ran: string[] = [];
    clock.after(60, () => ran.push('sixty'));
    clock.after(20, () => {
      ran.push('twenty');
      clock.after(1, () => ran.push('made by twenty'));
    });
    clock.after(40, () => ran.push('forty'));
    stall(150);
    assert.deepEqual(ran, []);
    await pass(100);
    assert.deepEqual(ran, ['twenty', 'forty', 'sixty', 'made by twenty']);
  });
}

const START = 1_800_000_000_000;
const HOUR = 3_600_000;

function rig() {
  let system = START;
  let awake = 5_000;
  let boot = 777_000;
  const wall = new SteadyWall({ system: () => system, awake: () => awake, sinceBoot: () => boot });
  const since = (): number => wall.now() - START;
  const pass = (ms: number): void => {
    system += ms;
    awake += ms;
    boot += ms;
  };
  const sleep = (ms: number): void => {
    system += ms;
    boot += ms;
  };
  const set = (by: number): void => {
    system += by;
  };
  return { since, pass, sleep, set };
}

test('fault:F38 the wall clock moves forward and back by an hour: the time of timers goes on', () => {
  const { since, pass, set } = rig();
  pass(1_000);
  assert.equal(since(), 1_000);
  for (const by of [HOUR, -2 * HOUR, HOUR, 30 * HOUR]) {
    const before = since();
    set(by);
    assert.equal(since(), before);
    pass(10_000);
    assert.equal(since(), before + 10_000);
  }
});

test('fault:F38 the machine sleeps: that time counts, wherever the wall clock is moved meanwhile', () => {
  const { since, pass, sleep, set } = rig();
  sleep(8 * HOUR);
  assert.equal(since(), 8 * HOUR);
  set(HOUR);
  assert.equal(since(), 8 * HOUR);
  sleep(HOUR);
  set(-5 * HOUR);
  assert.equal(since(), 9 * HOUR);
  pass(100);
  assert.equal(since(), 9 * HOUR + 100);
});

test('with the real sources the clock gives the time of day', () => {
  const wall = new SteadyWall();
  assert.ok(Math.abs(wall.now() - Date.now()) < 1_000);
});
