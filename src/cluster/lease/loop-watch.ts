import { Worker } from 'node:worker_threads';
import type { ClusterDeps } from '../cluster-deps.ts';

/** Interval of beats; each one wakes the process. */
const BEAT_MS = 250;
const BLOCKED_MS = 1_000;

/**
 * Detects pauses of this process. A thread (`LOOP_WATCHER`) reports a blocked event loop while it is blocked; a stopped process
 * is detected after it continues.
 */
export class LoopWatch {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'logger'>;
  readonly #beats = new Int32Array(new SharedArrayBuffer(4));
  #worker: Worker | null = null;
  #beatAt: number;
  #stillUntil = Number.NEGATIVE_INFINITY;
  #stop: () => void = () => {};

  constructor(deps: Pick<ClusterDeps, 'clock' | 'logger'>) {
    this.#deps = deps;
    this.#beatAt = deps.clock.now();
  }

  start(thread = true): void {
    this.#beatAt = this.#deps.clock.now();
    this.#beat();
    if (!thread) return;
    const workerData = { beats: this.#beats, beatMs: BEAT_MS, blockedMs: BLOCKED_MS };
    const worker = new Worker(LOOP_WATCHER, { eval: true, workerData, stdout: false, stderr: false });
    worker.unref();
    worker.on('error', (error) => this.#deps.logger.warn('loop_watch_failed', { error: String(error) }));
    this.#worker = worker;
  }

  /** Whether this process was paused for at least `BLOCKED_MS`, until at most `withinMs` ago. */
  wasStalled(withinMs: number): boolean {
    this.#look();
    return this.#deps.clock.now() - this.#stillUntil <= withinMs;
  }

  async close(): Promise<void> {
    this.#stop();
    await this.#worker?.terminate();
  }

  #beat(): void {
    this.#look();
    Atomics.add(this.#beats, 0, 1);
    this.#stop = this.#deps.clock.after(BEAT_MS, () => this.#beat());
  }

  #look(): void {
    const now = this.#deps.clock.now();
    const still = now - this.#beatAt - BEAT_MS;
    this.#beatAt = now;
    if (still < BLOCKED_MS) return;
    this.#stillUntil = now;
    this.#deps.logger.error('process_stood_still', { ms: Math.round(still) });
  }
}

/**
 * The script of `LoopWatch`'s thread. Plain JavaScript as text, so that neither the sources nor the built package need a file
 * for it. It writes to standard error itself, because the main thread cannot while its loop is blocked.
 *
 * `event_loop_blocked`: the loop did not run while this thread did. Time in which this thread did not run either does not
 * count, whichever of the two wakes first; the thread logs it as `loop_watch_stood_still`. Together with a
 * `process_stood_still` of the same time, that shows that the whole process was stopped.
 */
export const LOOP_WATCHER = `
const { workerData } = require('node:worker_threads');
const { writeSync } = require('node:fs');
const { beats, beatMs, blockedMs } = workerData;
// The two beat out of step, by up to a beat.
const stillMs = blockedMs - beatMs;
const log = (level, event, ms) => {
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
  if (stood) log('warn', 'loop_watch_stood_still', since - beatMs);
  const beat = Atomics.load(beats, 0);
  if (beat !== seen) { seen = beat; blocked = 0; told = false; return; }
  if (!stood) blocked += Math.min(since, beatMs);
  if (told || blocked < blockedMs) return;
  told = true;
  log('error', 'event_loop_blocked', blocked);
}, beatMs);
`;
