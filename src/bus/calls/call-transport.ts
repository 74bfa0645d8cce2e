import type { Clock } from '../../model/clock.ts';
import type { Wire } from '../wire.ts';
import { DueQueue } from './due-queue.ts';
import type { FramePost } from './frame-post.ts';
import { FRAME_OVERHEAD } from './frames.ts';

const CHUNK_BYTES = 512 * 1024;
/** Of a request, an answer and everything between them. */
export const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
/** A call not taken by then has failed: a silent peer counts as gone. */
export const TAKE_MS = 1_500;
/** What came while this process stood still is read within this time. */
const HEAR_MS = 500;
/** An answer within this time costs two messages; later ones are preceded by an acceptance. */
const ACCEPT_MS = 20;

/** What incoming and outgoing calls use of the bus: frames, acceptance and time limits. */
export class CallTransport {
  readonly clock: Clock;
  readonly post: FramePost;
  readonly untaken: DueQueue;
  readonly unanswered: DueQueue;
  readonly slow: (subject: string) => void;
  readonly #wire: Wire;

  /** `slow`: a call was cut because its other end does not keep up. */
  constructor(wire: Wire, clock: Clock, post: FramePost, slow: (subject: string) => void) {
    this.clock = clock;
    this.post = post;
    this.untaken = new DueQueue(clock, TAKE_MS, HEAR_MS);
    this.unanswered = new DueQueue(clock, ACCEPT_MS);
    this.slow = slow;
    this.#wire = wire;
  }

  get chunkBytes(): number {
    return Math.min(CHUNK_BYTES, this.#wire.maxPayload - FRAME_OVERHEAD);
  }

  get connected(): boolean {
    return this.#wire.connected;
  }
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
