import type { CallId } from './call-id.ts';
import { ENTRY_AT, ENTRY_HEAD, type End, FRAME_AT, writeEntry } from './frames.ts';

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
  /** A call begins in it, so that it matters whether anybody hears it. */
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

  /** All of it, which is nobody's but the taker's then. */
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

export interface BundlesDeps {
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
