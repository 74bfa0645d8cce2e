import { uptime } from 'node:os';

/** Where time is read, in milliseconds; for tests. */
export interface TimeSources {
  /** The system's clock, which can be set to anything at any moment. */
  readonly system: () => number;
  /** Runs evenly and stands while the machine sleeps. */
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

/**
 * Wall-clock time that nobody can set: the system's at the start of the process, and on from there as time really
 * passes, the sleep of the machine included. What expires at a time of day expires when it should, though somebody puts
 * the clock forward or back by an hour (F38).
 */
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
