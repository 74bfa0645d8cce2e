import type { Clock } from '../../model/clock.ts';

/** What may wait in a queue, one at a time; the places belong to the queue. */
export interface DueItem<Item> {
  /** 0: it waits in none. */
  dueAt: number;
  earlier: Item | null;
  later: Item | null;
}

/**
 * What falls due the same time after it was added, all on one timer: most of it is taken out long before. Each knows its
 * neighbours, so that nothing is made for it and nothing of it stays; a `Map` would keep what is gone from the collector
 * (`ByNumber`).
 */
export class DueQueue<Item extends DueItem<Item>> {
  readonly #clock: Clock;
  readonly #delayMs: number;
  readonly #due: (item: Item) => void;
  /** They fall due in the order in which they came. */
  #first: Item | null = null;
  #last: Item | null = null;
  #armed = false;

  constructor(clock: Clock, delayMs: number, due: (item: Item) => void) {
    this.#clock = clock;
    this.#delayMs = delayMs;
    this.#due = due;
  }

  /** It must not wait already. */
  add(item: Item): void {
    item.dueAt = this.#clock.now() + this.#delayMs;
    item.earlier = this.#last;
    if (this.#last === null) this.#first = item;
    else this.#last.later = item;
    this.#last = item;
    this.#arm(this.#delayMs);
  }

  /** No-op for what does not wait. */
  delete(item: Item): void {
    if (item.dueAt === 0) return;
    const { earlier, later } = item;
    if (earlier === null) this.#first = later;
    else earlier.later = later;
    if (later === null) this.#last = earlier;
    else later.earlier = earlier;
    item.dueAt = 0;
    item.earlier = null;
    item.later = null;
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
    for (let item = this.#first; item !== null; item = this.#first) {
      if (item.dueAt > now) {
        this.#arm(item.dueAt - now);
        return;
      }
      this.delete(item);
      this.#due(item);
    }
  }
}
