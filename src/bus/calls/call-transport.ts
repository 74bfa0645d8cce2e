import type { Clock } from '../../model/clock.ts';
import type { Wire } from '../wire.ts';
import type { FrameSender } from './frame-sender.ts';
import { FRAME_OVERHEAD } from './frames.ts';

const CHUNK_BYTES = 512 * 1024;
/** Limit of each payload: request, answer, emit, ask. */
export const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
/** Longest deadline that frames and timers can hold: 24 days. */
export const MAX_DEADLINE_MS = 0x7fff_ffff;

/** Interval between beats, which visit all calls. */
const BEAT_MS = 1_000;
/** Shortest interval between two ticks; what falls due meanwhile waits. */
const MIN_TICK_INTERVAL_MS = 20;
/** A timer this late means that this process was stalled. */
const STALL_MS = 400;

export interface TickInfo {
  readonly now: number;
  /** Visits all calls and ticks their channels. */
  readonly beat: boolean;
  /** This process was stalled: it has not read yet what arrived meanwhile. */
  readonly stalled: boolean;
}

/**
 * What incoming and outgoing calls use of the bus: frames, limits, and one timer for all calls, because most calls end before
 * anything is due.
 */
export class CallTransport {
  readonly sender: FrameSender;
  readonly slow: (subject: string) => void;
  readonly #wire: Wire;
  readonly #clock: Clock;
  readonly #tick: (info: TickInfo) => number;
  #stop: (() => void) | null = null;
  #firesAt = Number.POSITIVE_INFINITY;
  #notBefore = 0;
  /** The first tick at or after this time is a beat. */
  nextBeat = 0;
  #stopped = false;

  /** `slow` reports a call that was cut because its peer does not keep up. `tick` visits the calls and returns its next time. */
  constructor(
    wire: Wire,
    clock: Clock,
    sender: FrameSender,
    slow: (subject: string) => void,
    tick: (info: TickInfo) => number,
  ) {
    this.sender = sender;
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

  /** From now on, calls fail as not sent and the timer does not fire. */
  stop(): void {
    this.#stopped = true;
    this.#stop?.();
  }

  #arm(): void {
    this.#stop = this.#clock.after(Math.max(0, this.#firesAt - this.now), () => this.#fire());
  }

  #fire(): void {
    const { now } = this;
    // Timers count from the start of the event loop turn, so they may fire early.
    if (now < this.#firesAt) {
      this.#arm();
      return;
    }
    const stalled = now - this.#firesAt > STALL_MS;
    const beat = now >= this.nextBeat;
    if (beat) this.nextBeat = now + BEAT_MS;
    this.#firesAt = Number.POSITIVE_INFINITY;
    this.#notBefore = now + MIN_TICK_INTERVAL_MS;
    let next = this.nextBeat;
    try {
      next = this.#tick({ now, beat, stalled });
    } finally {
      this.wakeAt(next);
    }
  }
}
