import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOOP_WATCHER } from './loop-watch.ts';

interface Told {
  readonly level: string;
  readonly event: string;
  readonly ms: number;
}

/** The thread with a clock that is played: a tick every so many milliseconds, at which the loop has turned or has not. */
function watcher() {
  const beats = new Int32Array(1);
  const told: Told[] = [];
  let now = 0;
  let tick = (): void => {};
  const modules: Record<string, object> = {
    'node:worker_threads': { workerData: { beats, beatMs: 250, blockedMs: 1_000 } },
    'node:fs': {
      writeSync: (_fd: number, line: string) => {
        const { level, event, ms } = JSON.parse(line) as Told;
        told.push({ level, event, ms });
      },
    },
  };
  new Function('require', 'setInterval', 'performance', LOOP_WATCHER)(
    (name: string) => modules[name],
    (task: () => void) => {
      tick = task;
    },
    { now: () => now },
  );
  return {
    told,
    tick: (afterMs: number, turned: boolean): void => {
      now += afterMs;
      if (turned) beats[0]!++;
      tick();
    },
  };
}

const STILL = (ms: number): Told => ({ level: 'warn', event: 'loop_watch_stood_still', ms });
const BLOCKED: Told = { level: 'error', event: 'event_loop_blocked', ms: 1_000 };

test('fault:F32 a loop that does not turn while its watcher goes on is blocked, told of once, and again after it has turned', () => {
  const { told, tick } = watcher();
  tick(250, true);
  for (let i = 0; i < 3; i++) tick(250, false);
  assert.deepEqual(told, []);
  for (let i = 0; i < 9; i++) tick(250, false);
  assert.deepEqual(told, [BLOCKED]);
  tick(250, true);
  for (let i = 0; i < 4; i++) tick(250, false);
  assert.deepEqual(told, [BLOCKED, BLOCKED]);
});

test('fault:F31 after a stop of the whole process the watcher says so, and does not blame the loop because it wakes first', () => {
  const { told, tick } = watcher();
  tick(250, true);
  tick(30_250, false);
  tick(250, true);
  assert.deepEqual(told, [STILL(30_000)]);
});

test('a loop that stays blocked after such a stop is blamed for what came after it', () => {
  const { told, tick } = watcher();
  tick(250, true);
  tick(30_250, false);
  for (let i = 0; i < 3; i++) tick(250, false);
  assert.deepEqual(told, [STILL(30_000)]);
  tick(250, false);
  assert.deepEqual(told, [STILL(30_000), BLOCKED]);
});

test('a watcher that is late by less than a standstill says nothing, and goes on counting', () => {
  const { told, tick } = watcher();
  tick(250, true);
  for (let i = 0; i < 4; i++) tick(990, false);
  assert.deepEqual(told, [BLOCKED]);
});
