import { uptime } from 'node:os';
import { setImmediate } from 'node:timers';

interface TimeSources {
  /** The system's clock, which can be set to anything at any moment. */
  readonly system: () => number;
  /** Runs evenly and stops while the machine sleeps. */
  readonly awake: () => number;
  /** Runs evenly, sleep included; coarse, and dear to ask. */
  readonly sinceBoot: () => number;
}

const SOURCES: TimeSources = {
  system: () => Date.now(),
  awake: () => performance.now(),
  sinceBoot: () => uptime() * 1000,
};

/** What is below is the clock being kept right, and rounding. */
const JUMP_MS = 1_000;

/** Wall-clock time that cannot be set: the system's at the start, and on from there, sleep included (F38). */
export class SteadyWall {
  readonly #sources: TimeSources;
  /** What this clock shows when `awake` shows zero. */
  #base: number;
  /** Sleep so far: by how much the time since boot has run ahead. */
  #slept: number;
  /** By how much the system's clock was ahead when we last asked ourselves why. */
  #known = 0;

  constructor(sources: TimeSources = SOURCES) {
    this.#sources = sources;
    const awake = sources.awake();
    this.#base = sources.system() - awake;
    this.#slept = sources.sinceBoot() - awake;
  }

  now(): number {
    const { system, awake, sinceBoot } = this.#sources;
    const steady = this.#base + awake();
    const ahead = system() - steady;
    if (Math.abs(ahead - this.#known) < JUMP_MS) return Math.floor(steady);
    this.#known = ahead;
    const slept = sinceBoot() - awake();
    const more = slept - this.#slept;
    if (more < JUMP_MS) return Math.floor(steady);
    this.#slept = slept;
    this.#base += more;
    this.#known -= more;
    return Math.floor(steady + more);
  }
}

/** Time as a dependency. `now` is monotonic; `wall` is for people and records and cannot be set. */
export interface Clock {
  now(): number;
  /**
   * As `now`, read once in a turn of the event loop: up to that much behind. For what is noted with every call, since
   * reading the clock takes 0.03 to 0.15 us, a dozen times per call.
   */
  turnNow(): number;
  wall(): number;
  /** Runs `task` once after `delayMs`; the returned function cancels it. Timers do not keep the process alive. */
  after(delayMs: number, task: () => void): () => void;
  /** The clock of `pause` and `within`, where `after` runs nothing once the owner of this clock has ended: a caller waits for them. */
  readonly waits?: Clock;
}

/** Node runs a timer that is set for longer at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const wall = new SteadyWall();

let turnBeganAt = 0;
let turnIsKnown = false;
const turnEnded = (): void => {
  turnIsKnown = false;
};

export const systemClock: Clock = {
  now: () => performance.now(),
  turnNow() {
    if (!turnIsKnown) {
      turnIsKnown = true;
      turnBeganAt = performance.now();
      setImmediate(turnEnded);
    }
    return turnBeganAt;
  },
  wall: () => wall.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, Math.min(delayMs, LONGEST_TIMER_MS));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void (clock.waits ?? clock).after(ms, resolve));
}

/** The result of the work, or that of `late` when it takes longer; the work goes on then, and its result is ignored. */
export async function within<T, L>(clock: Clock, ms: number, work: Promise<T>, late: () => L): Promise<T | L> {
  let disarm = (): void => {};
  const expired = new Promise<L>((resolve, reject) => {
    disarm = (clock.waits ?? clock).after(ms, () => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    });
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    disarm();
  }
}

export interface Backoff {
  readonly initialMs: number;
  readonly maxMs: number;
  /** Share of a delay that chance may take away, so that many do not come back at one instant. */
  readonly jitter: number;
}

/** How much longer each delay is than the one before (S3.1). */
export const BACKOFF_MULTIPLIER = 2;
/** Beyond so many doublings every curve has long met its bound. */
const MAX_STEPS = 30;

/** The delay after so many steps, 0 for the first; `unit` is a random number of 0 to below 1. */
export function backoffMs({ initialMs, maxMs, jitter }: Backoff, steps: number, unit: number): number {
  return Math.round(
    Math.min(maxMs, initialMs * BACKOFF_MULTIPLIER ** Math.min(steps, MAX_STEPS)) * (1 - jitter * unit),
  );
}
