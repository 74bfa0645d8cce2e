import type { Clock } from '../../model/clock.ts';

export interface DueItem {
  /** 0: in no queue. */
  dueAt: number;
  earlier: DueItem | null;
  later: DueItem | null;
  due(): void;
}

/**
 * Items that fall due the same time after they were added, on one timer. Linked, because most are removed early and a `Map` would
 * keep them from the collector (`ByNumber`).
 */
export class DueQueue {
  readonly #clock: Clock;
  readonly #delayMs: number;
  #first: DueItem | null = null;
  #last: DueItem | null = null;
  #armed = false;

  constructor(clock: Clock, delayMs: number) {
    this.#clock = clock;
    this.#delayMs = delayMs;
  }

  /** It must be in no queue. */
  add(item: DueItem): void {
    item.dueAt = this.#clock.now() + this.#delayMs;
    item.earlier = this.#last;
    if (this.#last === null) this.#first = item;
    else this.#last.later = item;
    this.#last = item;
    this.#arm(this.#delayMs);
  }

  /** No-op if it is in none. */
  delete(item: DueItem): void {
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

  /** The timer stays for the next item. */
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
      item.due();
    }
  }
}
