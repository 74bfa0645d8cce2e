import type { Clock } from './clock.ts';

/** The pause after a run is this many times as long as the run. */
const REST_FACTOR = 30;
/** Maximum pause. On a busy machine a run may take many times longer than its work. */
const MAX_PAUSE_MS = 2_000;

/** Runs a task at once, or once for all requests after a pause of 30 times the previous run, at most 2 s. */
export class ThrottledTask {
  readonly #clock: Clock;
  readonly #task: () => void;
  #pauseEnd = Number.NEGATIVE_INFINITY;
  #stop: (() => void) | null = null;
  #inThisTurn = false;

  constructor(clock: Clock, task: () => void) {
    this.#clock = clock;
    this.#task = task;
  }

  /** Whether a requested run is pending. */
  get pending(): boolean {
    return this.#stop !== null || this.#inThisTurn;
  }

  schedule(): void {
    const waitMs = this.#pauseEnd - this.#clock.now();
    if (waitMs <= 0) this.run();
    else this.#stop ??= this.#clock.after(waitMs, () => this.run());
  }

  /** Runs once at the end of this turn for all requests in it. */
  scheduleThisTurn(): void {
    if (this.#inThisTurn) return;
    this.#inThisTurn = true;
    queueMicrotask(() => this.#inThisTurn && this.run());
  }

  run(): void {
    this.close();
    const startedAt = this.#clock.now();
    this.#task();
    const now = this.#clock.now();
    this.#pauseEnd = now + Math.min(REST_FACTOR * (now - startedAt), MAX_PAUSE_MS);
  }

  close(): void {
    this.#stop?.();
    this.#stop = null;
    this.#inThisTurn = false;
  }
}
