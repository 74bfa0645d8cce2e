import type { Clock } from '../../src/model/clock.ts';

interface Task {
  readonly due: number;
  readonly order: number;
  readonly run: () => void;
}

/** A clock that only the test moves. Tasks run in order of their due time, then of their creation. */
export class FakeClock implements Clock {
  #now: number;
  #order = 0;
  #tasks: Task[] = [];

  constructor(start = 1_000_000) {
    this.#now = start;
  }

  now(): number {
    return this.#now;
  }

  turnNow(): number {
    return this.#now;
  }

  wall(): number {
    return this.#now;
  }

  after(delayMs: number, run: () => void): () => void {
    const task = { due: this.#now + delayMs, order: this.#order++, run };
    this.#tasks.push(task);
    return () => {
      this.#tasks = this.#tasks.filter((other) => other !== task);
    };
  }

  get pending(): number {
    return this.#tasks.length;
  }

  /** Time passes while no task runs, as in a blocked process: tasks that fell due run with the next `advance`. */
  skip(ms: number): void {
    this.#now += ms;
  }

  /** Moves time on, running what falls due on the way, and lets promises settle after each task. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const next = this.#tasks.filter((task) => task.due <= end).sort((a, b) => a.due - b.due || a.order - b.order)[0];
      if (next === undefined) break;
      this.#tasks = this.#tasks.filter((task) => task !== next);
      this.#now = Math.max(this.#now, next.due);
      next.run();
      await settled();
    }
    this.#now = end;
    await settled();
  }
}

/** Lets everything that is already resolvable resolve. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
}
