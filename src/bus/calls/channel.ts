import type { Payload } from '../bus.ts';
import { type AckFrame, ackFrame, type DataFrame, dataFrame, PART, type Part, Pieces } from './frames.ts';

/** Frames sent and not acknowledged; and chunks of which so many bytes may be. */
const WINDOW_FRAMES = 256;
const WINDOW_CHUNKS = 4;
/** So many frames are taken without a word; with larger ones, every `chunkBytes`. */
const ACK_FRAMES = 64;
/** Acknowledgements come every second; without one for so many, frames are taken for lost. */
const SILENT_TICKS = 3;
/** Above this, `send` says that it is enough. */
const HIGH_BYTES = 1024 * 1024;
/** Who still emits or asks above this, has the call cut: the other side does not read. */
const HARD_BYTES = 4 * 1024 * 1024;
const HARD_FRAMES = 16_384;

export interface ChannelEnds {
  /** Signs and publishes a frame. */
  transmit(frame: Buffer): void;
  /** A whole payload has come. */
  received(part: Part, ref: number, payload: Buffer): void;
  /** There is room again after `send` has returned false. */
  drained(): void;
  /** It cannot go on: the other side does not keep up, or breaks the rules. */
  broken(reason: string, slow: boolean): void;
}

interface Queued {
  readonly seq: number;
  readonly frame: Buffer;
}

/**
 * Both directions of one call, at one of its ends: payloads in order and each once, over messages that may get lost.
 * Large ones go in chunks; no more is under way than a window, and what was lost is sent again when the other side asks
 * for it (a gap, a new connection).
 */
export class Channel {
  readonly #ends: ChannelEnds;
  readonly #chunkBytes: number;
  readonly #maxBytes: number;
  /** Built and not sent. */
  readonly #queue: Queued[] = [];
  #queuedBytes = 0;
  /** Sent and not acknowledged. */
  readonly #unacked: Queued[] = [];
  #unackedBytes = 0;
  #nextSeq = 1;
  #full = false;
  #open = false;
  #expected = 1;
  #sinceAckFrames = 0;
  #sinceAckBytes = 0;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #askedFor = 0;
  #silentTicks = 0;
  #paused = false;
  /** Frames that came while paused; no more than a window. */
  readonly #waiting: DataFrame[] = [];

  /** `maxBytes`: the longest payload taken. Nothing is sent before `open`. */
  constructor(ends: ChannelEnds, chunkBytes: number, maxBytes: number) {
    this.#ends = ends;
    this.#chunkBytes = chunkBytes;
    this.#maxBytes = maxBytes;
  }

  /** Everything was sent and acknowledged. */
  get settled(): boolean {
    return this.#queue.length === 0 && this.#unacked.length === 0;
  }

  /** Everything has left at least once. */
  get sent(): boolean {
    return this.#queue.length === 0;
  }

  /** Frames that wait or are under way. */
  get size(): number {
    return this.#queue.length + this.#unacked.length;
  }

  /** The other side is there and knows the call. */
  open(): void {
    if (this.#open) return;
    this.#open = true;
    this.#push();
  }

  /** False: enough for now, `drained` follows. */
  send(part: Part, ref: number, payload: Payload | Pieces): boolean {
    const pieces = payload instanceof Pieces ? payload : new Pieces(payload);
    const last = part !== PART.emit && part !== PART.ask;
    if (!last && (this.#queuedBytes > HARD_BYTES || this.#queue.length > HARD_FRAMES)) {
      this.#ends.broken('the other side does not keep up', true);
      return false;
    }
    do {
      const frame = dataFrame(this.#nextSeq, part, ref, pieces, Math.min(pieces.left, this.#chunkBytes));
      this.#queue.push({ seq: this.#nextSeq++, frame });
      this.#queuedBytes += frame.length;
    } while (pieces.left > 0);
    this.#push();
    if (this.#queuedBytes > HIGH_BYTES) this.#full = true;
    return !this.#full;
  }

  data(frame: DataFrame): void {
    if (frame.seq !== this.#expected + this.#waiting.length) {
      if (frame.seq < this.#expected + this.#waiting.length) {
        // It came before, so that what was said of it must have been lost.
        this.#sinceAckFrames++;
        return;
      }
      // Something is missing. Asked for once: what follows the gap is dropped, and comes again with it.
      if (this.#askedFor !== this.#expected) this.#ends.transmit(ackFrame(this.#expected, true));
      this.#askedFor = this.#expected;
      return;
    }
    if (this.#paused) {
      if (this.#waiting.length >= WINDOW_FRAMES) this.#ends.broken('more was sent than the window allows', false);
      else this.#waiting.push(frame);
    } else this.#take(frame);
  }

  ack({ seq, resync }: AckFrame): void {
    this.#silentTicks = 0;
    while (this.#unacked.length > 0 && this.#unacked[0]!.seq < seq) {
      this.#unackedBytes -= this.#unacked.shift()!.frame.length;
    }
    if (resync) this.repeat();
    this.#push();
    if (this.#full && this.#queuedBytes <= HIGH_BYTES / 2) {
      this.#full = false;
      this.#ends.drained();
    }
  }

  /** Sends what was not acknowledged once more. */
  repeat(): void {
    for (const { frame } of this.#unacked) this.#ends.transmit(Buffer.from(frame));
  }

  /** Says how far everything has come, and with `resync` that the rest may have been lost. */
  acknowledge(resync: boolean): void {
    this.#sinceAckBytes = 0;
    this.#sinceAckFrames = 0;
    this.#askedFor = 0;
    this.#ends.transmit(ackFrame(this.#expected, resync));
  }

  /**
   * Called every second while the call lasts: says how far it has come, though nothing made it necessary, and sends again
   * what has not been acknowledged for a while.
   */
  tick(): void {
    if (!this.#open) return;
    if (this.#sinceAckFrames > 0 || this.#waiting.length > 0 || this.#askedFor > 0)
      this.acknowledge(this.#askedFor > 0);
    if (this.#unacked.length > 0 && ++this.#silentTicks % SILENT_TICKS === 0) this.repeat();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    while (!this.#paused) {
      const frame = this.#waiting.shift();
      if (frame === undefined) return;
      this.#take(frame);
    }
  }

  #take({ part, ref, more, bytes }: DataFrame): void {
    this.#expected++;
    this.#sinceAckFrames++;
    this.#sinceAckBytes += bytes.length;
    this.#partBytes += bytes.length;
    if (this.#partBytes > this.#maxBytes) {
      this.#ends.broken(`a payload of more than ${this.#maxBytes} bytes`, false);
      return;
    }
    if (this.#sinceAckFrames >= ACK_FRAMES || this.#sinceAckBytes >= this.#chunkBytes) this.acknowledge(false);
    if (more || this.#parts.length > 0) this.#parts.push(bytes);
    if (more) return;
    const payload = this.#parts.length === 0 ? bytes : Buffer.concat(this.#parts, this.#partBytes);
    this.#parts = [];
    this.#partBytes = 0;
    this.#ends.received(part, ref, payload);
  }

  #push(): void {
    if (!this.#open) return;
    const windowBytes = this.#chunkBytes * WINDOW_CHUNKS;
    while (this.#queue.length > 0 && this.#unacked.length < WINDOW_FRAMES && this.#unackedBytes < windowBytes) {
      const next = this.#queue.shift()!;
      this.#queuedBytes -= next.frame.length;
      this.#unacked.push(next);
      this.#unackedBytes += next.frame.length;
      this.#ends.transmit(next.frame);
    }
  }
}
