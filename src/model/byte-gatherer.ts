import { lend } from './lent-memory.ts';
import { releaseBytes } from './release-bytes.ts';

/** Small pieces are gathered in blocks, so that a byte-by-byte writer costs bytes, not objects. */
const MIN_BLOCK_BYTES = 1024;
const MAX_BLOCK_BYTES = 64 * 1024;
/** Of less, a copy is kept. */
export const SMALL_PIECE = MAX_BLOCK_BYTES / 4;
const NOTHING = Buffer.alloc(0);

/**
 * The pieces of something that comes in parts, joined once. A large piece is kept as it is, until then with the memory
 * that it is a part of; small ones are copied.
 */
export class ByteGatherer {
  #pieces: Buffer[] = [];
  #length = 0;
  #block: Buffer | null = null;
  #blockUsed = 0;

  get length(): number {
    return this.#length;
  }

  add(piece: Buffer): void {
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
    return this.#take(leave);
  }

  /** Likewise where the pieces are nobody else's: once it is copied, the memory of each is free at once. */
  takeOver(): Buffer {
    return this.#take(releaseBytes);
  }

  /** Copies of the first and of the last `count` bytes. */
  edges(count: number): { readonly head: Buffer; readonly tail: Buffer } {
    this.#seal();
    const head = Buffer.concat(this.#pieces, Math.min(count, this.#length));
    let from = this.#pieces.length;
    let held = 0;
    while (from > 0 && held < count) held += this.#pieces[--from]!.length;
    return { head, tail: Buffer.from(Buffer.concat(this.#pieces.slice(from)).subarray(-count)) };
  }

  /** Like `clear`, where the pieces are nobody else's: their memory is free at once. */
  discard(): void {
    for (const piece of this.#pieces) releaseBytes(piece);
    this.clear();
  }

  clear(): void {
    this.#pieces = [];
    this.#length = 0;
    this.#block = null;
    this.#blockUsed = 0;
  }

  #take(copied: (piece: Buffer) => void): Buffer {
    this.#seal();
    const [first = NOTHING] = this.#pieces;
    const whole = this.#pieces.length <= 1 ? first : this.#joined(copied);
    this.clear();
    return whole;
  }

  /** In memory that may be given back, should it turn out to be passed on to somebody and no more. */
  #joined(copied: (piece: Buffer) => void): Buffer {
    const whole = lend(this.#length);
    let at = 0;
    for (const piece of this.#pieces) {
      at += piece.copy(whole, at);
      copied(piece);
    }
    return whole;
  }

  #seal(): void {
    if (this.#block === null) return;
    this.#pieces.push(this.#block.subarray(0, this.#blockUsed));
    this.#block = null;
    this.#blockUsed = 0;
  }
}

function leave(): void {}
