import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SteadyWall } from './steady-wall.ts';

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

test('fault:F38 the clock put forward and back by an hour: time goes on as it passes', () => {
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

test('fault:F38 the machine sleeps: that time has passed, whatever the clock is put to meanwhile', () => {
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

test('the real sources: the time of day', () => {
  const wall = new SteadyWall();
  assert.ok(Math.abs(wall.now() - Date.now()) < 1_000);
});
