import type { Payload } from '../bus.ts';
import { type AckFrame, ackFrame, type DataFrame, dataFrame, PART, type Part, Pieces } from './frames.ts';

const WINDOW_FRAMES = 256;
const WINDOW_CHUNKS = 4;
/** Larger frames are acknowledged every `chunkBytes`. */
const ACK_FRAMES = 64;
/** Without an acknowledgement this long, frames count as lost. */
const SILENT_TICKS = 3;
/** Above it `send` returns false. */
const HIGH_BYTES = 1024 * 1024;
/** Above it the call is cut: the other side does not read. */
const HARD_BYTES = 4 * 1024 * 1024;
const HARD_FRAMES = 16_384;

export interface ChannelEnds {
  transmit(frame: Buffer): void;
  received(part: Part, ref: number, payload: Buffer): void;
  drained(): void;
  /** The other side is slow, or breaks the protocol. */
  broken(reason: string, slow: boolean): void;
}

interface Queued {
  readonly seq: number;
  readonly frame: Buffer;
}

/**
 * One end of a call, both directions: payloads in order and once over a lossy bus. Large ones go in chunks within a window; lost
 * frames are sent again on request.
 */
export class Channel {
  readonly #ends: ChannelEnds;
  readonly #chunkBytes: number;
  readonly #maxBytes: number;
  readonly #queue: Queued[] = [];
  #queuedBytes = 0;
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
  readonly #waiting: DataFrame[] = [];

  /** Nothing is sent before `open`. */
  constructor(ends: ChannelEnds, chunkBytes: number, maxBytes: number) {
    this.#ends = ends;
    this.#chunkBytes = chunkBytes;
    this.#maxBytes = maxBytes;
  }

  get settled(): boolean {
    return this.#queue.length === 0 && this.#unacked.length === 0;
  }

  get sent(): boolean {
    return this.#queue.length === 0;
  }

  /** The other side knows the call. */
  open(): void {
    if (this.#open) return;
    this.#open = true;
    this.#push();
  }

  /** False: wait for `drained`. */
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
        // Received before: its acknowledgement was lost.
        this.#sinceAckFrames++;
        return;
      }
      // A gap: requested once; what follows is dropped and comes again.
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

  repeat(): void {
    for (const { frame } of this.#unacked) this.#ends.transmit(Buffer.from(frame));
  }

  /** `resync`: the rest may be lost. */
  acknowledge(resync: boolean): void {
    this.#sinceAckBytes = 0;
    this.#sinceAckFrames = 0;
    this.#askedFor = 0;
    this.#ends.transmit(ackFrame(this.#expected, resync));
  }

  /** Every second: acknowledges again, and repeats what is unacknowledged for long. */
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
