import { SteadyWall } from './steady-wall.ts';

/**
 * Time as a dependency, so that tests can turn the clock. `now` is monotonic; `wall` is for people and records, and
 * does not follow when the system's clock is put to another time.
 */
export interface Clock {
  now(): number;
  wall(): number;
  /** Runs `task` once after `delayMs`; the returned function calls it off. Timers do not keep the process alive. */
  after(delayMs: number, task: () => void): () => void;
}

/** Node runs a timer that is set for longer at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const wall = new SteadyWall();

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => wall.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, Math.min(delayMs, LONGEST_TIMER_MS));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
