/** Time as a dependency, so that tests can turn the clock. `now` is monotonic; `wall` is for people and records. */
export interface Clock {
  now(): number;
  wall(): number;
  /** Runs `task` once after `delayMs`; the returned function calls it off. Timers do not keep the process alive. */
  after(delayMs: number, task: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
