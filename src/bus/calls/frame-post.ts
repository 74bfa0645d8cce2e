import { bundleSubject, noResponderSubject } from '../subjects.ts';
import type { Signer } from '../trust/signer.ts';
import type { Wire } from '../wire.ts';
import {
  type CallId,
  dataFrame,
  dataLength,
  ENTRY_AT,
  ENTRY_HEAD,
  type End,
  FRAME_AT,
  type Part,
  type Pieces,
  type RequestHead,
  requestLength,
  writeData,
  writeEntry,
  writeRequest,
} from './frames.ts';

/** A longer frame goes alone. */
const BUNDLE_BYTES = 64 * 1024;
/** Beyond it, idle peers are forgotten. */
const MANY_PEERS = 256;

/** The initial memory of a bundle is the size of the last one, within these. */
const LEAST_BYTES = 1024;
const MOST_BYTES = 3 * 1024;

/** The queue of one peer, written as it will leave; its memory is reused. */
class Bundle implements Room {
  bytes: Buffer = EMPTY;
  at = 0;
  /** 0: empty. */
  end = 0;
  number = 0;
  /** A call begins in it: a missing subscriber matters. */
  begins = false;
  #usual = LEAST_BYTES;

  grow(more: number): void {
    const needed = this.end + more;
    if (needed <= this.bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#usual, this.end * 2));
    this.bytes.copy(grown, 0, 0, this.end);
    this.bytes = grown;
  }

  /** The bundle keeps no reference. */
  take(): Buffer {
    const message = this.bytes.subarray(0, this.end);
    this.#usual = Math.min(Math.max(this.end, LEAST_BYTES), MOST_BYTES);
    this.bytes = EMPTY;
    this.end = 0;
    this.begins = false;
    return message;
  }
}

const EMPTY = Buffer.alloc(0);

interface Room {
  readonly bytes: Buffer;
  readonly at: number;
  readonly number: number;
}

/**
 * Everything that leaves a bus, signed. Frames to one peer within one turn of the loop leave as one message: one signature,
 * subject and write for all. In order.
 */
export class FramePost {
  readonly #wire: Wire;
  readonly #signer: Signer;
  readonly #waiting = new Map<string, Bundle>();
  readonly #flush = (): void => this.flush();
  #numbers = 0;
  #scheduled = false;

  constructor(wire: Wire, signer: Signer) {
    this.#wire = wire;
    this.#signer = signer;
  }

  /** In this turn of the loop; dropped without a connection. */
  transmit(peer: string, end: Exclude<End, 'new'>, call: CallId, frame: Buffer): void {
    if (this.#wire.connected) this.add(peer, end, call, frame);
  }

  /** The whole answer of a short call. */
  answer(peer: string, call: CallId, part: Part, pieces: Pieces): void {
    if (!this.#wire.connected) return;
    const room = this.#room(peer, 'caller', call, dataLength(pieces.left));
    if (room === null) this.transmit(peer, 'caller', call, dataFrame(1, part, 0, pieces, pieces.left));
    else writeData(room.bytes, room.at, 1, part, 0, pieces, pieces.left);
  }

  /** With the beginning of its payload. Returns the number of the bundle; 0 without a connection. */
  request(peer: string, subject: string, call: CallId, head: RequestHead, pieces: Pieces, bytes: number): number {
    if (!this.#wire.connected) return 0;
    const length = requestLength(subject, bytes);
    const room = this.#room(peer, 'new', call, length);
    if (room !== null) {
      writeRequest(room.bytes, room.at, subject, call, head, pieces, bytes);
      return room.number;
    }
    const frame = Buffer.allocUnsafe(FRAME_AT + length);
    writeRequest(frame, FRAME_AT, subject, call, head, pieces, bytes);
    return this.add(peer, 'new', call, frame);
  }

  /** After everything queued before it. */
  publish(subject: string, message: Buffer): void {
    if (!this.#wire.connected) return;
    this.flush();
    this.#signer.sign(message, subject);
    this.#wire.publish(subject, message);
  }

  #room(peer: string, end: End, call: CallId, length: number): Room | null {
    const bytes = ENTRY_HEAD + length;
    const limit = Math.min(BUNDLE_BYTES, this.#wire.maxPayload - ENTRY_AT);
    if (bytes > limit) return null;
    const bundle = this.#waiting.get(peer) ?? this.#bundleFor(peer);
    if (bundle.end > 0 && bundle.end - ENTRY_AT + bytes > limit) this.#sendBundle(peer, bundle);
    if (bundle.end === 0) {
      bundle.number = ++this.#numbers;
      bundle.end = ENTRY_AT;
    }
    bundle.grow(bytes);
    writeEntry(bundle.bytes, bundle.end, end, call, length);
    bundle.at = bundle.end + ENTRY_HEAD;
    bundle.end += bytes;
    bundle.begins ||= end === 'new';
    this.#schedule();
    return bundle;
  }

  /** Its message, bundled or alone. */
  add(peer: string, end: End, call: CallId, frame: Buffer): number {
    const room = this.#room(peer, end, call, frame.length - FRAME_AT);
    if (room !== null) {
      frame.copy(room.bytes, room.at, FRAME_AT);
      return room.number;
    }
    const bundle = this.#waiting.get(peer);
    if (bundle !== undefined && bundle.end > 0) this.#sendBundle(peer, bundle);
    writeEntry(frame, ENTRY_AT, end, call, frame.length - FRAME_AT);
    const number = ++this.#numbers;
    this.#send(peer, frame, end === 'new' ? number : null);
    return number;
  }

  flush(): void {
    this.#scheduled = false;
    for (const [peer, bundle] of this.#waiting) if (bundle.end > 0) this.#sendBundle(peer, bundle);
  }

  /** Returns the numbers of the lost messages. */
  lost(): ReadonlySet<number> {
    const waiting = [...this.#waiting.values()].filter(({ end }) => end > 0);
    const lost = new Set(waiting.map(({ number }) => number));
    this.#waiting.clear();
    return lost;
  }

  #bundleFor(peer: string): Bundle {
    if (this.#waiting.size >= MANY_PEERS) {
      for (const [other, { end }] of this.#waiting) if (end === 0) this.#waiting.delete(other);
    }
    const bundle = new Bundle();
    this.#waiting.set(peer, bundle);
    return bundle;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After all input of this turn, before the loop waits.
    setImmediate(this.#flush);
  }

  #sendBundle(peer: string, bundle: Bundle): void {
    const { begins, number } = bundle;
    this.#send(peer, bundle.take(), begins ? number : null);
  }

  /** `begins`: the number of a message in which a call begins. */
  #send(peer: string, message: Buffer, begins: number | null): void {
    const subject = bundleSubject(peer);
    this.#signer.sign(message, subject);
    this.#wire.publish(subject, message, begins === null ? undefined : noResponderSubject(this.#signer.peer, begins));
  }
}
