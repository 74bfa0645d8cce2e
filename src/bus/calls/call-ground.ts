import type { Clock } from '../../model/clock.ts';
import type { DueItem, DueQueue } from './due-queue.ts';
import type { CallId, End, Part, Pieces, RequestHead } from './frames.ts';

export interface Untaken extends DueItem<Untaken> {
  noResponders(): void;
}

export interface Quiet extends DueItem<Quiet> {
  accept(): void;
}

/** What both ends of a call need of the bus. */
export interface CallGround {
  readonly clock: Clock;
  readonly chunkBytes: number;
  readonly maxBytes: number;
  readonly connected: boolean;
  /** In this turn of the loop; dropped without a connection. */
  transmit(peer: string, end: Exclude<End, 'new'>, call: CallId, frame: Buffer): void;
  /** With the beginning of its payload. Returns the number of its bundle; 0: none. */
  request(peer: string, subject: string, call: CallId, head: RequestHead, pieces: Pieces, bytes: number): number;
  /** The whole answer of a short call. */
  answer(peer: string, call: CallId, part: Part, pieces: Pieces): void;
  readonly untaken: DueQueue<Untaken>;
  readonly quiet: DueQueue<Quiet>;
  slow(subject: string): void;
}

/** The longest that frames and timers take: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;

export const TICK_MS = 1_000;

/** Has a timer only in its last second: most calls end long before. Its owner ticks it once a second. */
export class Deadline {
  readonly #clock: Clock;
  #at: number;
  readonly #owner: { expired(): void };
  #disarm: (() => void) | null = null;

  constructor(clock: Clock, ms: number, owner: { expired(): void }) {
    this.#clock = clock;
    this.#owner = owner;
    this.#at = clock.now() + ms;
    if (ms <= TICK_MS) this.#arm(ms);
  }

  tick(): void {
    const left = this.#at - this.#clock.now();
    if (left <= TICK_MS && this.#disarm === null) this.#arm(Math.max(0, left));
  }

  /** Infinity: until it is moved again. */
  move(ms: number): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#at = this.#clock.now() + ms;
    if (ms <= TICK_MS) this.#arm(ms);
  }

  stop(): void {
    this.#disarm?.();
  }

  #arm(ms: number): void {
    this.#disarm = this.#clock.after(ms, () => this.#owner.expired());
  }
}
