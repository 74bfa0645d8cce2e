import type { Clock } from '../../model/clock.ts';
import type { DueItem, DueQueue } from './due-queue.ts';
import type { CallId, End, Part, Pieces, RequestHead } from './frames.ts';

/** A call that has been begun and not been taken. */
export interface Untaken extends DueItem<Untaken> {
  noResponders(): void;
}

/** A call that is served, and of which the caller has not heard yet. */
export interface Quiet extends DueItem<Quiet> {
  accept(): void;
}

/** What both ends of a call need of the bus they are on. */
export interface CallGround {
  readonly clock: Clock;
  /** Bytes of payload in one message. */
  readonly chunkBytes: number;
  /** Longest payload taken. */
  readonly maxBytes: number;
  readonly connected: boolean;
  /** Sends a frame to a peer, in this turn of the loop; dropped without a connection. */
  transmit(peer: string, end: Exclude<End, 'new'>, call: CallId, frame: Buffer): void;
  /**
   * Sends a request with so much of its payload, to the peers that serve its subject where no peer is named. The number of its
   * bundle; 0 for none.
   */
  request(peer: string | null, subject: string, call: CallId, head: RequestHead, pieces: Pieces, bytes: number): number;
  /** Sends all that there is to say to the caller of a short call, as `transmit` does. */
  answer(peer: string, call: CallId, part: Part, pieces: Pieces): void;
  readonly untaken: DueQueue<Untaken>;
  readonly quiet: DueQueue<Quiet>;
  slow(subject: string): void;
}

/** Longest deadline that a frame can say, and a timer can wait for: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;

/** How often everything that has a deadline is looked at. */
export const TICK_MS = 1_000;

/**
 * A deadline that has a timer of its own only in its last second: most of what has one ends long before. Its owner is
 * ticked once a second.
 */
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

  /** It is so far off again. Infinity: it does not run out until it is moved again. */
  move(ms: number): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#at = this.#clock.now() + ms;
    if (ms <= TICK_MS) this.#arm(ms);
  }

  /** It does not matter any more. */
  stop(): void {
    this.#disarm?.();
  }

  #arm(ms: number): void {
    this.#disarm = this.#clock.after(ms, () => this.#owner.expired());
  }
}
