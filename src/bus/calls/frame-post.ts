import { bundleSubject, callSubject, noResponderSubject } from '../subjects.ts';
import type { Signer } from '../trust/signer.ts';
import type { Wire } from '../wire.ts';
import {
  aloneMessage,
  type CallId,
  callText,
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

/** A forgotten peer shows it again with its next message. */
const MAX_READERS = 4096;

/** All that leaves a bus, signed: frames for a peer in bundles where that reads them, everything else as it comes. */
export class FramePost {
  readonly #wire: Wire;
  readonly #signer: Signer;
  readonly #bundles: Bundles;
  /** Peers that have shown that they read bundles. Others get their frames one by one. */
  readonly #readers = new Set<string>();

  constructor(wire: Wire, signer: Signer) {
    this.#wire = wire;
    this.#signer = signer;
    this.#bundles = new Bundles({
      maxPayload: () => wire.maxPayload,
      send: (peer, message, begins) => this.#send(peer, message, begins),
    });
  }

  /** The peer reads bundles. */
  reads(peer: string): void {
    if (this.#readers.has(peer)) return;
    if (this.#readers.size >= MAX_READERS) this.#readers.clear();
    this.#readers.add(peer);
  }

  /** The peer is gone. */
  forget(peer: string): void {
    this.#readers.delete(peer);
  }

  transmit(peer: string, end: Exclude<End, 'new'>, call: CallId, frame: Buffer): void {
    if (!this.#wire.connected) return;
    if (this.#readers.has(peer)) this.#bundles.add(peer, end, call, frame);
    else this.publish(callSubject(peer, end === 'caller' ? 'c' : 's', callText(call)), aloneMessage(frame));
  }

  /** All that is said to the caller of a short call, in one frame. */
  answer(peer: string, call: CallId, part: Part, pieces: Pieces): void {
    if (!this.#wire.connected) return;
    const length = dataLength(pieces.left);
    const room = this.#readers.has(peer) ? this.#bundles.room(peer, 'caller', call, length) : null;
    if (room === null) this.transmit(peer, 'caller', call, dataFrame(1, part, 0, pieces, pieces.left));
    else writeData(room.bytes, room.at, 1, part, 0, pieces, pieces.left);
  }

  /** With so much of the payload. The number of the bundle; 0 where the request goes alone. */
  request(
    peer: string | null,
    subject: string,
    call: CallId,
    head: RequestHead,
    pieces: Pieces,
    bytes: number,
  ): number {
    const length = requestLength(subject, bytes);
    const bundled = peer !== null && this.#readers.has(peer) && this.#wire.connected;
    const room = bundled ? this.#bundles.room(peer, 'new', call, length) : null;
    if (room !== null) {
      writeRequest(room.bytes, room.at, subject, call, head, pieces, bytes);
      return room.number;
    }
    const frame = Buffer.allocUnsafe(FRAME_AT + length);
    writeRequest(frame, FRAME_AT, subject, call, head, pieces, bytes);
    if (bundled) return this.#bundles.add(peer, 'new', call, frame);
    this.publish(subject, aloneMessage(frame), noResponderSubject(this.#signer.peer, 'c', callText(call)));
    return 0;
  }

  /** A message that goes past the bundles, behind everything that came before it. */
  publish(subject: string, message: Buffer, reply?: string): void {
    if (!this.#wire.connected) return;
    this.#bundles.flush();
    this.#signer.sign(message, subject);
    this.#wire.publish(subject, message, reply === undefined ? {} : { reply });
  }

  /** What waits leaves now. */
  flush(): void {
    this.#bundles.flush();
  }

  /** The connection is lost, and what waits with it: the numbers of the bundles that never left. */
  lost(): ReadonlySet<number> {
    return this.#bundles.clear();
  }

  #send(peer: string, message: Buffer, begins: number | null): void {
    const subject = bundleSubject(peer);
    this.#signer.sign(message, subject);
    const options = begins === null ? {} : { reply: noResponderSubject(this.#signer.peer, 'b', String(begins)) };
    this.#wire.publish(subject, message, options);
  }
}

/** What one message holds at the most; a frame that is longer goes alone. */
const BUNDLE_BYTES = 64 * 1024;
/** Of so many peers, those for whom nothing waits are forgotten. */
const MANY_PEERS = 256;

/** Memory that a bundle begins with: what the last one had, within these. */
const LEAST_BYTES = 1024;
const MOST_BYTES = 3 * 1024;

/** What waits for one peer, written as it will leave; it is used again for what waits afterwards. */
class Bundle implements Room {
  bytes: Buffer = EMPTY;
  at = 0;
  /** 0: nothing waits. */
  end = 0;
  number = 0;
  /** A call begins in it, so that it matters whether it has a subscriber. */
  begins = false;
  #usual = LEAST_BYTES;

  /** Makes room for so many bytes more. */
  grow(more: number): void {
    const needed = this.end + more;
    if (needed <= this.bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#usual, this.end * 2));
    this.bytes.copy(grown, 0, 0, this.end);
    this.bytes = grown;
  }

  /** All of it; the bundle keeps no reference. */
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

/** Where a frame is to be written, at once. */
export interface Room {
  readonly bytes: Buffer;
  readonly at: number;
  /** Of the message that it will leave in. */
  readonly number: number;
}

interface BundlesDeps {
  /** No message is longer. */
  readonly maxPayload: () => number;
  /** Signs the message, which has room for that at its front, and sends it. `begins`: its number, else null. */
  readonly send: (peer: string, message: Buffer, begins: number | null) => void;
}

/**
 * What goes to one peer within one turn of the loop leaves as one message: one signature, one subject and one write to
 * the connection for all calls that move at the same time. Frames are in order, whatever they belong to.
 */
export class Bundles {
  readonly #deps: BundlesDeps;
  readonly #waiting = new Map<string, Bundle>();
  readonly #flush = (): void => this.flush();
  #numbers = 0;
  #scheduled = false;

  constructor(deps: BundlesDeps) {
    this.#deps = deps;
  }

  /** Room for a frame of so many bytes; null where it is too long to have company. */
  room(peer: string, end: End, call: CallId, length: number): Room | null {
    const bytes = ENTRY_HEAD + length;
    const limit = Math.min(BUNDLE_BYTES, this.#deps.maxPayload() - ENTRY_AT);
    if (bytes > limit) return null;
    const bundle = this.#waiting.get(peer) ?? this.#bundleFor(peer);
    if (bundle.end > 0 && bundle.end - ENTRY_AT + bytes > limit) this.#send(peer, bundle);
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

  /** The number of the message that the frame leaves in: with company, or alone and at once, behind what waits. */
  add(peer: string, end: End, call: CallId, frame: Buffer): number {
    const room = this.room(peer, end, call, frame.length - FRAME_AT);
    if (room !== null) {
      frame.copy(room.bytes, room.at, FRAME_AT);
      return room.number;
    }
    const bundle = this.#waiting.get(peer);
    if (bundle !== undefined && bundle.end > 0) this.#send(peer, bundle);
    writeEntry(frame, ENTRY_AT, end, call, frame.length - FRAME_AT);
    const number = ++this.#numbers;
    this.#deps.send(peer, frame, end === 'new' ? number : null);
    return number;
  }

  /** Everything leaves now. */
  flush(): void {
    this.#scheduled = false;
    for (const [peer, bundle] of this.#waiting) if (bundle.end > 0) this.#send(peer, bundle);
  }

  /** What waits is lost: the numbers of the messages that it would have left in. */
  clear(): ReadonlySet<number> {
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
    // After everything that has come in has been looked at, from all connections, and before the loop waits.
    setImmediate(this.#flush);
  }

  #send(peer: string, bundle: Bundle): void {
    const { begins, number } = bundle;
    this.#deps.send(peer, bundle.take(), begins ? number : null);
  }
}
