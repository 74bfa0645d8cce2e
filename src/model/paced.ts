import type { Clock } from './clock.ts';

/** How much longer than a run the pause after it is. */
const PAUSE = 30;
/** On a machine that is busy a run may take many times longer than its work. */
const MOST_MS = 2_000;

/** Runs a task at once, or later and once for all requests while its runs would take more than a thirtieth of the time, at most 2 s. */
export class Paced {
  readonly #clock: Clock;
  readonly #task: () => void;
  #pauseEnd = Number.NEGATIVE_INFINITY;
  #stop: (() => void) | null = null;
  #inThisTurn = false;

  constructor(clock: Clock, task: () => void) {
    this.#clock = clock;
    this.#task = task;
  }

  /** A run was requested and waits. */
  get due(): boolean {
    return this.#stop !== null || this.#inThisTurn;
  }

  soon(): void {
    const waitMs = this.#pauseEnd - this.#clock.now();
    if (waitMs <= 0) this.run();
    else this.#stop ??= this.#clock.after(waitMs, () => this.run());
  }

  /** At the end of this turn, once for all requests of it. */
  atOnce(): void {
    if (this.#inThisTurn) return;
    this.#inThisTurn = true;
    queueMicrotask(() => this.#inThisTurn && this.run());
  }

  run(): void {
    this.close();
    const begun = this.#clock.now();
    this.#task();
    const now = this.#clock.now();
    this.#pauseEnd = now + Math.min(PAUSE * (now - begun), MOST_MS);
  }

  close(): void {
    this.#stop?.();
    this.#stop = null;
    this.#inThisTurn = false;
  }
}
