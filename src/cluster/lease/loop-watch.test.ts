import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOOP_WATCHER } from './loop-watch.ts';

interface Warning {
  readonly level: string;
  readonly event: string;
  readonly ms: number;
}

/** The watcher thread with a fake clock: the test sets the time of each tick, and whether the loop has turned before it. */
function watcher() {
  const beats = new Int32Array(1);
  const warned: Warning[] = [];
  let now = 0;
  let tick = (): void => {};
  const modules: Record<string, object> = {
    'node:worker_threads': { workerData: { beats, beatMs: 250, blockedMs: 1_000 } },
    'node:fs': {
      writeSync: (_fd: number, line: string) => {
        const { level, event, ms } = JSON.parse(line) as Warning;
        warned.push({ level, event, ms });
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
    warned,
    tick: (afterMs: number, turned: boolean): void => {
      now += afterMs;
      if (turned) beats[0]!++;
      tick();
    },
  };
}

const STILL = (ms: number): Warning => ({ level: 'warn', event: 'loop_watch_stood_still', ms });
const BLOCKED: Warning = { level: 'error', event: 'event_loop_blocked', ms: 1_000 };

test('fault:F32 a loop that does not turn while its watcher runs is blocked, reported once, and again after it has turned', () => {
  const { warned, tick } = watcher();
  tick(250, true);
  for (let i = 0; i < 3; i++) tick(250, false);
  assert.deepEqual(warned, []);
  for (let i = 0; i < 9; i++) tick(250, false);
  assert.deepEqual(warned, [BLOCKED]);
  tick(250, true);
  for (let i = 0; i < 4; i++) tick(250, false);
  assert.deepEqual(warned, [BLOCKED, BLOCKED]);
});

test('fault:F31 after a stop of the whole process the watcher reports the stop and no blocked loop, also if it wakes first', () => {
  const { warned, tick } = watcher();
  tick(250, true);
  tick(30_250, false);
  tick(250, true);
  assert.deepEqual(warned, [STILL(30_000)]);
});

test('a loop that stays blocked after such a stop is reported for the time after the stop', () => {
  const { warned, tick } = watcher();
  tick(250, true);
  tick(30_250, false);
  for (let i = 0; i < 3; i++) tick(250, false);
  assert.deepEqual(warned, [STILL(30_000)]);
  tick(250, false);
  assert.deepEqual(warned, [STILL(30_000), BLOCKED]);
});

test('a watcher that is late by less than a standstill reports nothing, and goes on counting', () => {
  const { warned, tick } = watcher();
  tick(250, true);
  for (let i = 0; i < 4; i++) tick(990, false);
  assert.deepEqual(warned, [BLOCKED]);
});
