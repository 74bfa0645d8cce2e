/** Runs tasks in order, a few at a time, so that many servers starting at once do not starve each other. */
export class StartQueue {
  readonly #width: number;
  readonly #waiting: (() => Promise<void>)[] = [];
  #running = 0;
  #closed = false;

  constructor(width: number) {
    this.#width = width;
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
    if (this.#closed || this.#running >= this.#width) return;
    const task = this.#waiting.shift();
    if (task === undefined) return;
    this.#running++;
    const done = () => {
      this.#running--;
      this.#next();
    };
    task().then(done, done);
  }
}
