import type { Payload } from '../bus.ts';
import { type AckFrame, ackFrame, type DataFrame, dataFrame, PART, type Part, Pieces } from './frames.ts';

const WINDOW_FRAMES = 256;
const WINDOW_CHUNKS = 4;
/** Acknowledges after this many frames or `chunkBytes` bytes. */
const ACK_FRAMES = 64;
/** Frames count as lost after this many ticks without an acknowledgement. */
const SILENT_TICKS = 3;
/** Above it `send` returns false. */
const HIGH_BYTES = 1024 * 1024;
/** Above it `send` cuts the call: the peer does not keep up. */
const HARD_BYTES = 4 * 1024 * 1024;
const HARD_FRAMES = 16_384;

export interface ChannelEnds {
  transmit(frame: Buffer): void;
  received(part: Part, ref: number, payload: Buffer): void;
  drained(): void;
  /** The peer does not keep up (`slow`), or violates the protocol. */
  broken(reason: string, slow: boolean): void;
}

interface Queued {
  readonly seq: number;
  readonly frame: Buffer;
}

/**
 * One end of a call, in both directions: delivers each payload once and in order over a lossy bus. Sends large ones in chunks
 * within a window, and lost frames again on request.
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

  /** Queues everything until `open`. */
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

  /** Starts sending; called once the peer knows the call. */
  open(): void {
    if (this.#open) return;
    this.#open = true;
    this.#push();
  }

  /** Returns false if the sender must wait for `drained`. */
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
        // A duplicate: the next tick acknowledges it again.
        this.#sinceAckFrames++;
        return;
      }
      // A gap: requests the missing frame once and drops what follows, because the peer sends all of it again.
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
    if (resync) this.retransmit();
    this.#push();
    if (this.#full && this.#queuedBytes <= HIGH_BYTES / 2) {
      this.#full = false;
      this.#ends.drained();
    }
  }

  retransmit(): void {
    for (const { frame } of this.#unacked) this.#ends.transmit(Buffer.from(frame));
  }

  /** `resync` asks the peer to send all later frames again. */
  acknowledge(resync: boolean): void {
    this.#sinceAckBytes = 0;
    this.#sinceAckFrames = 0;
    this.#askedFor = 0;
    this.#ends.transmit(ackFrame(this.#expected, resync));
  }

  /** Called every second: acknowledges what arrived, and repeats frames that stay unacknowledged. */
  tick(): void {
    if (!this.#open) return;
    if (this.#sinceAckFrames > 0 || this.#waiting.length > 0 || this.#askedFor > 0)
      this.acknowledge(this.#askedFor > 0);
    if (this.#unacked.length > 0 && ++this.#silentTicks % SILENT_TICKS === 0) this.retransmit();
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
