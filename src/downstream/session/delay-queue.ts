import type { Clock } from '../../model/clock.ts';

/** An entry that the queue notifies after its delay. The links belong to the queue. */
export interface DelayQueueItem {
  /** Clock reading at which it is due; 0 while it is in no queue. */
  dueAt: number;
  earlier: DelayQueueItem | null;
  later: DelayQueueItem | null;
  /** Called once, after the entry has left the queue. */
  onDue(): void;
}

/**
 * One delay for many entries, with one timer: the list is in order of arrival, which is the order in which entries become
 * due. Joining and leaving cost a few assignments, so a call that is answered at once costs no timer of its own.
 */
export class DelayQueue {
  readonly #clock: Clock;
  readonly #delayMs: number;
  #first: DelayQueueItem | null = null;
  #last: DelayQueueItem | null = null;
  #armed = false;
  readonly #tick = (): void => this.#run();

  constructor(clock: Clock, delayMs: number) {
    this.#clock = clock;
    this.#delayMs = delayMs;
  }

  join(member: DelayQueueItem): void {
    member.dueAt = this.#clock.turnNow() + this.#delayMs;
    member.earlier = this.#last;
    member.later = null;
    if (this.#last === null) this.#first = member;
    else this.#last.later = member;
    this.#last = member;
    if (!this.#armed) this.#arm(this.#delayMs);
  }

  /** No-op for an entry that is in no queue. */
  leave(member: DelayQueueItem): void {
    if (member.dueAt === 0) return;
    member.dueAt = 0;
    if (member.earlier === null) this.#first = member.later;
    else member.earlier.later = member.later;
    if (member.later === null) this.#last = member.earlier;
    else member.later.earlier = member.earlier;
    member.earlier = null;
    member.later = null;
  }

  #arm(delayMs: number): void {
    this.#armed = true;
    this.#clock.after(delayMs, this.#tick);
  }

  /** The timer is armed while entries wait and stops when none do, so that joining does not set one each time. */
  #run(): void {
    this.#armed = false;
    const now = this.#clock.now();
    while (this.#first !== null && this.#first.dueAt <= now) {
      const member = this.#first;
      this.leave(member);
      member.onDue();
    }
    if (this.#first !== null && !this.#armed) this.#arm(Math.max(this.#first.dueAt - now, 1));
  }
}
