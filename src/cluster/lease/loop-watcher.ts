/**
 * What the thread of a `LoopWatch` runs. Plain JavaScript, because it runs from its text: sources and the built package
 * alike need no file for it. It writes to standard error itself, because nobody else can while the loop is blocked.
 *
 * `event_loop_blocked`: the loop did not turn while this thread went on. Time in which this thread did not run either is
 * held against nobody's loop, whichever of them wakes first; of that it says `loop_watch_stood_still`. Beside a
 * `process_stood_still` of the same time it is the evidence that the whole process was stopped.
 */
export const LOOP_WATCHER = `
const { workerData } = require('node:worker_threads');
const { writeSync } = require('node:fs');
const { beats, beatMs, blockedMs } = workerData;
// The two beat out of step, by up to a beat.
const stillMs = blockedMs - beatMs;
const tell = (level, event, ms) => {
  const entry = { time: new Date().toISOString(), level, event, ms: Math.round(ms) };
  try { writeSync(2, JSON.stringify(entry) + '\\n'); } catch {}
};
let seen = Atomics.load(beats, 0);
let tickedAt = performance.now();
let blocked = 0;
let told = false;
setInterval(() => {
  const now = performance.now();
  const since = now - tickedAt;
  tickedAt = now;
  const stood = since - beatMs >= stillMs;
  if (stood) tell('warn', 'loop_watch_stood_still', since - beatMs);
  const beat = Atomics.load(beats, 0);
  if (beat !== seen) { seen = beat; blocked = 0; told = false; return; }
  if (!stood) blocked += Math.min(since, beatMs);
  if (told || blocked < blockedMs) return;
  told = true;
  tell('error', 'event_loop_blocked', blocked);
}, beatMs);
`;
