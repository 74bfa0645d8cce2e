import type { Clock } from '../../model/clock.ts';
import type { Wire } from '../wire.ts';
import type { FramePost } from './frame-post.ts';
import { FRAME_OVERHEAD } from './frames.ts';

const CHUNK_BYTES = 512 * 1024;
/** Of a request, an answer and everything between them. */
export const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
/** The longest that frames and timers take: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;

/** Between two looks at all calls. */
const BEAT_MS = 1_000;
/** Between two looks: what falls due meanwhile waits so long. */
const APART_MS = 20;
/** A timer this late says that this process stood still. */
const STALL_MS = 400;

export interface Look {
  readonly now: number;
  /** At all calls; channels are ticked. */
  readonly beat: boolean;
  /** This process stood still: what has come meanwhile is not read yet. */
  readonly stood: boolean;
}

/**
 * What incoming and outgoing calls use of the bus: frames, limits, and one timer for all of them. Most calls end before anything is
 * due, and need none.
 */
export class CallTransport {
  readonly post: FramePost;
  readonly slow: (subject: string) => void;
  readonly #wire: Wire;
  readonly #clock: Clock;
  readonly #tick: (look: Look) => number;
  #stop: (() => void) | null = null;
  #firesAt = Number.POSITIVE_INFINITY;
  #notBefore = 0;
  /** The next look at or after it is at all calls. */
  nextBeat = 0;
  #stopped = false;

  /** `slow`: a call was cut because its other end does not keep up. `tick` looks at the calls; returns when to do it again. */
  constructor(
    wire: Wire,
    clock: Clock,
    post: FramePost,
    slow: (subject: string) => void,
    tick: (look: Look) => number,
  ) {
    this.post = post;
    this.slow = slow;
    this.#wire = wire;
    this.#clock = clock;
    this.#tick = tick;
  }

  get chunkBytes(): number {
    return Math.min(CHUNK_BYTES, this.#wire.maxPayload - FRAME_OVERHEAD);
  }

  get connected(): boolean {
    return !this.#stopped && this.#wire.connected;
  }

  get now(): number {
    return this.#clock.now();
  }

  wakeAt(wanted: number): void {
    const at = Math.max(wanted, this.#notBefore);
    if (at >= this.#firesAt || this.#stopped) return;
    this.#stop?.();
    this.#firesAt = at;
    this.#arm();
  }

  /** From now on calls are not sent, and nothing falls due. */
  stop(): void {
    this.#stopped = true;
    this.#stop?.();
  }

  #arm(): void {
    this.#stop = this.#clock.after(Math.max(0, this.#firesAt - this.now), () => this.#fire());
  }

  #fire(): void {
    const { now } = this;
    // Timers count from the beginning of a turn, so that they may be early.
    if (now < this.#firesAt) {
      this.#arm();
      return;
    }
    const stood = now - this.#firesAt > STALL_MS;
    const beat = now >= this.nextBeat;
    if (beat) this.nextBeat = now + BEAT_MS;
    this.#firesAt = Number.POSITIVE_INFINITY;
    this.#notBefore = now + APART_MS;
    let next = this.nextBeat;
    try {
      next = this.#tick({ now, beat, stood });
    } finally {
      this.wakeAt(next);
    }
  }
}
