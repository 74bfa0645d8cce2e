import type { Clock } from '../../model/clock.ts';
import type { Wire } from '../wire.ts';
import type { FramePost } from './frame-post.ts';
import { FRAME_OVERHEAD } from './frames.ts';

const CHUNK_BYTES = 512 * 1024;
/** Of a request, an answer and everything between them. */
export const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
/** The longest that frames and timers take: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;

/** Of the channels. */
const BEAT_MS = 1_000;
/** Between two looks at the calls: what falls due meanwhile waits so long. */
const LEAST_MS = 20;
/** A timer this late says that this process stood still. */
const STALL_MS = 400;

export interface Look {
  readonly now: number;
  /** Channels are ticked. */
  readonly beat: boolean;
  readonly nextBeat: number;
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
  #leastAt = 0;
  #beatAt = 0;

  /** `slow`: a call was cut because its other end does not keep up. `tick` looks at all calls; returns when to do it again. */
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
    return this.#wire.connected;
  }

  /** Returns when that is. */
  wakeIn(ms: number): number {
    const now = this.#clock.now();
    this.#wake(now + ms, now);
    return now + ms;
  }

  stop(): void {
    this.#stop?.();
  }

  #wake(wanted: number, now: number): void {
    const at = Math.max(wanted, this.#leastAt);
    if (at >= this.#firesAt) return;
    this.#stop?.();
    this.#firesAt = at;
    this.#arm(now);
  }

  #arm(now: number): void {
    this.#stop = this.#clock.after(Math.max(0, this.#firesAt - now), () => this.#fire());
  }

  #fire(): void {
    const now = this.#clock.now();
    // Timers count from the beginning of a turn, so that they may be early.
    if (now < this.#firesAt) {
      this.#arm(now);
      return;
    }
    const stood = now - this.#firesAt > STALL_MS;
    const beat = now >= this.#beatAt;
    if (beat) this.#beatAt = now + BEAT_MS;
    this.#firesAt = Number.POSITIVE_INFINITY;
    this.#leastAt = now + LEAST_MS;
    this.#wake(this.#tick({ now, beat, nextBeat: this.#beatAt, stood }), now);
  }
}
