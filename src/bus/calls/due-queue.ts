import type { Clock } from '../../model/clock.ts';

/** A timer this late says that this process stood still. */
const STALL_MS = 400;

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
  readonly #hearMs: number;
  #first: DueItem | null = null;
  #last: DueItem | null = null;
  /** When its timer runs; 0: it has none. */
  #firesAt = 0;

  /**
   * `hearMs`: what falls due while this process stands still waits so much longer, because timers run before what has come
   * meanwhile is read.
   */
  constructor(clock: Clock, delayMs: number, hearMs = 0) {
    this.#clock = clock;
    this.#delayMs = delayMs;
    this.#hearMs = hearMs;
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
    if (this.#firesAt > 0) return;
    this.#firesAt = this.#clock.now() + delayMs;
    this.#clock.after(delayMs, () => this.#fire());
  }

  #fire(): void {
    const now = this.#clock.now();
    const stoodStill = now - this.#firesAt > STALL_MS;
    this.#firesAt = 0;
    if (stoodStill) this.#putOff(now + this.#hearMs);
    for (let item = this.#first; item !== null; item = this.#first) {
      if (item.dueAt > now) {
        this.#arm(item.dueAt - now);
        return;
      }
      this.delete(item);
      item.due();
    }
  }

  #putOff(least: number): void {
    for (let item = this.#first; item !== null && item.dueAt < least; item = item.later) item.dueAt = least;
  }
}
