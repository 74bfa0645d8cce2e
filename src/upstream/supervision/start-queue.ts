import { setImmediate } from 'node:timers';
import type { Clock } from '../../model/clock.ts';

/** Tasks that begin in one turn of the event loop: what many starts do first may not hold up everything else. */
const PER_TURN = 4;

export interface StartQueueLimits {
  /** Tasks at once. */
  readonly width: number;
  /** A task that takes longer waits for something, and takes nothing from the others: the next one may begin. */
  readonly patienceMs: number;
}

/**
 * Runs tasks in order, a few at a time, so that many servers starting at once do not starve each other, and those that
 * hang do not keep the others from starting.
 */
export class StartQueue {
  readonly #limits: StartQueueLimits;
  readonly #clock: Clock;
  readonly #waiting: (() => Promise<void>)[] = [];
  #running = 0;
  /** Tasks that may still begin in this turn. */
  #left = PER_TURN;
  #closed = false;

  constructor(limits: StartQueueLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  add(task: () => Promise<void>): void {
    this.#waiting.push(task);
    this.#next();
  }

  /** What has not begun never will. */
  close(): void {
    this.#closed = true;
    this.#waiting.length = 0;
  }

  #next(): void {
    if (this.#closed || this.#running >= this.#limits.width) return;
    if (this.#left === 0) return;
    const task = this.#waiting.shift();
    if (task === undefined) return;
    if (this.#left-- === PER_TURN) setImmediate(() => this.#turn());
    this.#running++;
    let counted = true;
    const done = () => {
      disarm();
      if (!counted) return;
      counted = false;
      this.#running--;
      this.#next();
    };
    const disarm = this.#clock.after(this.#limits.patienceMs, done);
    task().then(done, done);
  }

  #turn(): void {
    this.#left = PER_TURN;
    for (let begun = 0; begun < PER_TURN; begun++) this.#next();
  }
}
