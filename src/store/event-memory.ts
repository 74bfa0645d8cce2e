const SEGMENT_BYTES = 1024 * 1024;
/** Longer messages get memory of their own, so that segments fill well and have room after compaction. */
const LARGE_BYTES = SEGMENT_BYTES / 8;
const NOTHING = Buffer.alloc(0);

/** The position of a message in the memory; compaction changes it. */
export interface LoggedMessage {
  segment: Segment | null;
  slot: number;
  start: number;
  bytes: number;
}

/** A block of memory that holds messages one after the other. */
class Segment {
  readonly memory: Buffer;
  readonly single: boolean;
  /** In the order of their bytes; null for a released message. */
  readonly kept: (LoggedMessage | null)[] = [];
  used = 0;
  live = 0;

  constructor(bytes: number, single: boolean) {
    this.single = single;
    this.memory = Buffer.allocUnsafeSlow(bytes);
  }

  add(kept: LoggedMessage, message: Buffer): void {
    kept.segment = this;
    kept.slot = this.kept.push(kept) - 1;
    kept.start = this.used;
    kept.bytes = message.copy(this.memory, this.used);
    this.used += kept.bytes;
    this.live += kept.bytes;
  }

  compact(): void {
    let used = 0;
    let count = 0;
    for (const kept of this.kept) {
      if (kept === null) continue;
      this.memory.copyWithin(used, kept.start, kept.start + kept.bytes);
      kept.start = used;
      kept.slot = count;
      used += kept.bytes;
      this.kept[count++] = kept;
    }
    this.kept.length = count;
    this.used = used;
  }

  /** Frees the memory at once. The collector would keep it until it walks the whole heap. */
  free(): void {
    (this.memory.buffer as ArrayBuffer).transfer(0);
  }
}

/**
 * Memory for the messages of the event log. They live for minutes, so as garbage they would stay until collections of the
 * whole heap, a hundred of them at 100 MiB/s (F16). Holds up to 1.5 times `maxBytes`.
 */
export class EventMemory {
  readonly #maxSegments: number;
  readonly #segments: Segment[] = [];
  readonly #free: Segment[] = [];
  #current: Segment | null = null;

  constructor(maxBytes: number) {
    this.#maxSegments = 2 + Math.ceil((1.5 * maxBytes) / SEGMENT_BYTES);
  }

  put(kept: LoggedMessage, message: Buffer): void {
    if (message.length === 0) return;
    if (message.length > LARGE_BYTES) new Segment(message.length, true).add(kept, message);
    else this.#segmentWithCapacity(message.length).add(kept, message);
  }

  /** A view, valid only until the next message is put in. */
  view({ segment, start, bytes }: LoggedMessage): Buffer {
    return segment === null ? NOTHING : segment.memory.subarray(start, start + bytes);
  }

  release(kept: LoggedMessage): void {
    const { segment } = kept;
    if (segment === null) return;
    kept.segment = null;
    segment.kept[kept.slot] = null;
    segment.live -= kept.bytes;
    if (segment.live > 0) return;
    segment.used = 0;
    segment.kept.length = 0;
    if (segment.single) segment.free();
    else if (segment !== this.#current) this.#free.push(segment);
  }

  /** Frees segments that are not in use. */
  trim(): void {
    for (const segment of this.#free.splice(0)) {
      this.#segments.splice(this.#segments.indexOf(segment), 1);
      segment.free();
    }
  }

  #segmentWithCapacity(bytes: number): Segment {
    const current = this.#current;
    if (current !== null && current.used + bytes <= SEGMENT_BYTES) return current;
    if (current !== null && current.live === 0) this.#free.push(current);
    this.#current = this.#free.pop() ?? this.#another();
    return this.#current;
  }

  #another(): Segment {
    if (this.#segments.length >= this.#maxSegments) {
      const emptiest = this.#segments.reduce((least, segment) => (segment.live < least.live ? segment : least));
      if (emptiest.live + LARGE_BYTES <= SEGMENT_BYTES) {
        emptiest.compact();
        return emptiest;
      }
    }
    const segment = new Segment(SEGMENT_BYTES, false);
    this.#segments.push(segment);
    return segment;
  }
}
