import { type Clock, systemClock } from '../../model/clock.ts';
import { StreamMemory } from './stream-memory.ts';

/** An open event stream, as the wheel sees it. */
export interface WheelStream {
  /** Called once per round; `tick` is the wheel's count of turns. */
  keepAlive(tick: number): void;
  /** Ends the connection at once. */
  disconnect(): void;
  /** Releases memory that the kernel has read completely. */
  reclaim(): void;
}

export interface StreamWheelOptions {
  readonly clock?: Clock;
  readonly tickMs?: number;
  /** Time of a round, in which each stream has one turn. */
  readonly keepAliveMs?: number;
  /** A stream whose client took nothing for this long is disconnected (F16, F18). */
  readonly stallMs?: number;
  /** Bytes that all streams may queue together before the longest blocked ones are disconnected. 24 MiB. */
  readonly maxHeldBytes?: number;
}

const MAX_HELD_BYTES = 24 * 1024 * 1024;
/** The part of the limit for droppable events; the rest is for answers, the longest of which has to fit. */
const DROPPABLE_PART = 1 / 3;
/** A stream may queue this part of what is free of that: with many slow readers each one gets less. */
const SHARE = 1 / 8;
const MIN_SHARE_BYTES = 16 * 1024;

/**
 * One timer for all open event streams: keep-alive comments in turn, the end of stalled streams, and the common limit of
 * queued bytes. Runs only while there are streams.
 */
export class StreamWheel {
  /** Memory for what the streams queue. */
  readonly memory = new StreamMemory();
  readonly #clock: Clock;
  readonly #tickMs: number;
  readonly #slots: Set<WheelStream>[];
  readonly #stallTicks: number;
  readonly #maxHeldBytes: number;
  /** Stream to the tick of its last progress, longest blocked first. */
  readonly #blocked = new Map<WheelStream, number>();
  /** Streams that hold blocks: polled at every turn, because no event of the socket reports their release. */
  readonly #lending = new Set<WheelStream>();
  readonly #slotOf = new Map<WheelStream, number>();
  #tick = 0;
  #next = 0;
  #held = 0;
  #stop: (() => void) | null = null;

  constructor(options: StreamWheelOptions = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#tickMs = options.tickMs ?? 1_000;
    const turns = Math.max(1, Math.round((options.keepAliveMs ?? 15_000) / this.#tickMs));
    this.#slots = Array.from({ length: turns }, () => new Set());
    this.#stallTicks = Math.ceil((options.stallMs ?? 30_000) / this.#tickMs);
    this.#maxHeldBytes = options.maxHeldBytes ?? MAX_HELD_BYTES;
  }

  /** How often the wheel has turned: a clock that costs nothing to read. */
  get tick(): number {
    return this.#tick;
  }

  /** Turns of a round. */
  get turns(): number {
    return this.#slots.length;
  }

  get open(): number {
    return this.#slotOf.size;
  }

  get heldBytes(): number {
    return this.#held;
  }

  /** What one stream may queue now before it has to drop something. */
  get shareBytes(): number {
    return Math.max(MIN_SHARE_BYTES, (this.#maxHeldBytes * DROPPABLE_PART - this.#held) * SHARE);
  }

  add(stream: WheelStream): void {
    this.#next = (this.#next + 1) % this.#slots.length;
    this.#slots[this.#next]!.add(stream);
    this.#slotOf.set(stream, this.#next);
    this.#stop ??= this.#clock.after(this.#tickMs, () => this.#turn());
  }

  remove(stream: WheelStream): void {
    const slot = this.#slotOf.get(stream);
    if (slot === undefined) return;
    this.#slotOf.delete(stream);
    this.#slots[slot]!.delete(stream);
    this.#blocked.delete(stream);
    this.#lending.delete(stream);
    if (this.#slotOf.size > 0) return;
    this.#stop?.();
    this.#stop = null;
  }

  /** The client's side is full. */
  blocked(stream: WheelStream): void {
    if (!this.#blocked.has(stream)) this.#blocked.set(stream, this.#tick);
  }

  /** The client took something. */
  flowing(stream: WheelStream): void {
    this.#blocked.delete(stream);
  }

  /** Sets whether `reclaim` of the stream is called at every turn. */
  lending(stream: WheelStream, lends: boolean): void {
    if (lends) this.#lending.add(stream);
    else this.#lending.delete(stream);
  }

  /** The queued bytes of a stream grew or shrank. May disconnect streams, also the calling one. */
  held(delta: number): void {
    this.#held += delta;
    if (delta <= 0) return;
    while (this.#held > this.#maxHeldBytes) {
      const longest = this.#blocked.keys().next();
      if (longest.done === true) return;
      this.#blocked.delete(longest.value);
      longest.value.disconnect();
    }
  }

  #turn(): void {
    this.#stop = this.#clock.after(this.#tickMs, () => this.#turn());
    this.#tick += 1;
    for (const stream of this.#lending) stream.reclaim();
    for (const stream of this.#slots[this.#tick % this.#slots.length]!) stream.keepAlive(this.#tick);
    for (const [stream, since] of this.#blocked) {
      if (this.#tick - since >= this.#stallTicks) stream.disconnect();
    }
    if (this.#slotOf.size === 0) {
      this.#stop?.();
      this.#stop = null;
    }
  }
}
