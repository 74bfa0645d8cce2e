import type { Clock } from '../../model/clock.ts';

/** What falls due the same time after it was added, all on one timer: most of it is taken out long before. */
export class DueQueue<Item> {
  readonly #clock: Clock;
  readonly #delayMs: number;
  readonly #due: (item: Item) => void;
  /** In the order in which they fall due, which is that in which they came. */
  readonly #items = new Map<Item, number>();
  #armed = false;

  constructor(clock: Clock, delayMs: number, due: (item: Item) => void) {
    this.#clock = clock;
    this.#delayMs = delayMs;
    this.#due = due;
  }

  add(item: Item): void {
    this.#items.set(item, this.#clock.now() + this.#delayMs);
    this.#arm(this.#delayMs);
  }

  /** No-op for what is not in it. */
  delete(item: Item): void {
    this.#items.delete(item);
  }

  /** The timer is not called off for what is taken out: the next one that comes needs it. */
  #arm(delayMs: number): void {
    if (this.#armed) return;
    this.#armed = true;
    this.#clock.after(delayMs, () => this.#fire());
  }

  #fire(): void {
    this.#armed = false;
    const now = this.#clock.now();
    for (const [item, dueAt] of this.#items) {
      if (dueAt > now) {
        this.#arm(dueAt - now);
        return;
      }
      this.#items.delete(item);
      this.#due(item);
    }
  }
}
