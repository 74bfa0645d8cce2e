import { FRONT_ROOM, lend, letGo } from './lent-memory.ts';
import { releaseBytes } from './release-bytes.ts';

/** Small pieces are gathered in blocks, so that a byte-by-byte writer costs bytes, not objects. */
const MIN_BLOCK_BYTES = 1024;
const MAX_BLOCK_BYTES = 64 * 1024;
/** Of less, a copy is kept. */
export const SMALL_PIECE = MAX_BLOCK_BYTES / 4;
/**
 * Beyond this, pieces are copied as they come into one block, which grows by this factor: joined at the end, a large body
 * would keep everything else waiting, and take twice its memory.
 */
const HUGE_BYTES = 2 * 1024 * 1024;
const FIRST_HUGE_BLOCK = 4 * 1024 * 1024;
const HUGE_GROWTH = 4;
const NOTHING = Buffer.alloc(0);

/**
 * The pieces of something that comes in parts, joined once. A large piece is kept as it is, until then with the memory
 * that it is a part of; small ones are copied, and so is everything once there is very much of it.
 */
export class ByteGatherer {
  /** Of a piece that was copied. */
  readonly #copied: (piece: Buffer) => void;
  /** Where all of it is, once that is huge. */
  #huge: Buffer | null = null;
  #pieces: Buffer[] = [];
  #length = 0;
  #block: Buffer | null = null;
  #blockUsed = 0;

  /** `own`: the pieces are nobody else's, so that the memory of each is free as soon as it is copied. */
  constructor(own = false) {
    this.#copied = own ? releaseBytes : leave;
  }

  get length(): number {
    return this.#length;
  }

  add(piece: Buffer): void {
    if (this.#huge !== null || this.#length + piece.length > HUGE_BYTES) {
      this.#addToHuge(piece);
      return;
    }
    if (piece.length >= SMALL_PIECE) {
      this.#seal();
      this.#pieces.push(piece);
      this.#length += piece.length;
      return;
    }
    if (this.#block === null || this.#blockUsed + piece.length > this.#block.length) {
      this.#seal();
      const size = Math.max(MIN_BLOCK_BYTES, 2 * piece.length, Math.min(this.#length, MAX_BLOCK_BYTES));
      this.#block = Buffer.allocUnsafeSlow(size);
    }
    this.#blockUsed += piece.copy(this.#block, this.#blockUsed);
    this.#length += piece.length;
  }

  /** Like `add`, for a piece whose memory is somebody else's to write to afterwards. */
  addCopy(piece: Buffer): void {
    this.add(piece.length >= SMALL_PIECE ? Buffer.from(piece) : piece);
  }

  /** All of it in one buffer, which is the caller's to keep. The gatherer is empty then. */
  take(): Buffer {
    const whole = this.#whole();
    this.#forget();
    return whole;
  }

  /** Copies of the first and of the last `count` bytes. */
  edges(count: number): { readonly head: Buffer; readonly tail: Buffer } {
    if (this.#huge !== null) {
      const all = this.#huge.subarray(0, this.#length);
      return { head: Buffer.from(all.subarray(0, count)), tail: Buffer.from(all.subarray(-count)) };
    }
    this.#seal();
    const head = Buffer.concat(this.#pieces, Math.min(count, this.#length));
    let from = this.#pieces.length;
    let held = 0;
    while (from > 0 && held < count) held += this.#pieces[--from]!.length;
    return { head, tail: Buffer.from(Buffer.concat(this.#pieces.slice(from)).subarray(-count)) };
  }

  /** What was copied is nobody's any more, and pieces of its own are not either. */
  clear(): void {
    if (this.#huge !== null) letGo(this.#huge);
    for (const piece of this.#pieces) this.#copied(piece);
    this.#forget();
  }

  #whole(): Buffer {
    if (this.#huge !== null) return this.#huge.subarray(0, this.#length);
    this.#seal();
    const [first = NOTHING] = this.#pieces;
    return this.#pieces.length <= 1 ? first : this.#joinedIn(this.#length);
  }

  #addToHuge(piece: Buffer): void {
    const length = this.#length + piece.length;
    let huge = this.#huge;
    if (huge === null) {
      this.#seal();
      huge = this.#joinedIn(blockFor(length));
    } else if (length > huge.length) {
      const larger = lend(blockFor(length));
      huge.copy(larger, 0, 0, this.#length);
      letGo(huge);
      huge = larger;
    }
    this.#huge = huge;
    this.#length += piece.copy(huge, this.#length);
    this.#copied(piece);
  }

  /** The pieces in memory of so many bytes, which may be given back should it turn out to be passed on and no more. */
  #joinedIn(bytes: number): Buffer {
    const block = lend(bytes);
    let at = 0;
    for (const piece of this.#pieces) {
      at += piece.copy(block, at);
      this.#copied(piece);
    }
    this.#pieces = [];
    return block;
  }

  #forget(): void {
    this.#huge = null;
    this.#pieces = [];
    this.#length = 0;
    this.#block = null;
    this.#blockUsed = 0;
  }

  #seal(): void {
    if (this.#block === null) return;
    this.#pieces.push(this.#block.subarray(0, this.#blockUsed));
    this.#block = null;
    this.#blockUsed = 0;
  }
}

/** With the room that is lent in front of it, a round number. */
function blockFor(bytes: number): number {
  let block = FIRST_HUGE_BLOCK;
  while (block - FRONT_ROOM < bytes) block *= HUGE_GROWTH;
  return block - FRONT_ROOM;
}

function leave(): void {}
