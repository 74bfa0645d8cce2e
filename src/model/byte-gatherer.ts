import { claimAndReturn, releaseBytes, takeBuffer } from './pooled-buffers.ts';

/** Small pieces are copied into blocks, so that a byte-by-byte writer costs bytes, not objects. */
const MIN_BLOCK_BYTES = 1024;
const MAX_BLOCK_BYTES = 64 * 1024;
/** Smaller pieces are copied. */
export const SMALL_PIECE = MAX_BLOCK_BYTES / 4;
/**
 * Larger bodies are copied on arrival into one block, which grows by HUGE_GROWTH: joining them at the end would block the
 * event loop and take twice the memory.
 */
const HUGE_BYTES = 2 * 1024 * 1024;
const FIRST_HUGE_BLOCK = 4 * 1024 * 1024;
const HUGE_GROWTH = 4;
/** Bytes of earlier pieces that each new piece moves into a new block: touching fresh memory costs ten times the copy. */
const MOVED_AT_ONCE = 256 * 1024;
const NOTHING = Buffer.alloc(0);

/** Collects the pieces of a body and joins them once. Copies small pieces and huge bodies; references other pieces until then. */
export class ByteGatherer {
  /** Called with each piece that is no longer needed. */
  readonly #copied: (piece: Buffer) => void;
  /** The block of a huge body; it holds everything except the beginning that is still in `#pieces`. */
  #huge: Buffer | null = null;
  /** The previous block while its content, then the only piece, is being moved. */
  #outgrown: Buffer | null = null;
  /** Pieces whose bytes are not in `#huge` yet, in order. */
  #pieces: Buffer[] = [];
  /** Bytes moved out of `#pieces` so far. */
  #moved = 0;
  #length = 0;
  #block: Buffer | null = null;
  #blockUsed = 0;

  /** `own`: the gatherer owns the pieces and frees each one as soon as it is copied. */
  constructor(own = false) {
    this.#copied = own ? releaseBytes : leave;
  }

  get length(): number {
    return this.#length;
  }

  add(piece: Buffer): void {
    if (this.#isHuge(piece)) {
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

  /** Like `add`, for a piece whose memory its owner will overwrite. */
  addCopy(piece: Buffer): void {
    const copied = piece.length < SMALL_PIECE || this.#isHuge(piece);
    this.add(copied ? piece : Buffer.from(piece));
  }

  /** Returns all bytes in one buffer, which the caller owns, and empties the gatherer. */
  take(): Buffer {
    const bytes = this.#bytes();
    this.#forget();
    return bytes;
  }

  /** Copies of the first and of the last `count` bytes. */
  edges(count: number): { readonly head: Buffer; readonly tail: Buffer } {
    if (this.#huge !== null) {
      const all = this.#bytes();
      return { head: Buffer.from(all.subarray(0, count)), tail: Buffer.from(all.subarray(-count)) };
    }
    this.#seal();
    const head = Buffer.concat(this.#pieces, Math.min(count, this.#length));
    let from = this.#pieces.length;
    let held = 0;
    while (from > 0 && held < count) held += this.#pieces[--from]!.length;
    return { head, tail: Buffer.from(Buffer.concat(this.#pieces.slice(from)).subarray(-count)) };
  }

  clear(): void {
    if (this.#huge !== null) claimAndReturn(this.#huge);
    if (this.#outgrown !== null) claimAndReturn(this.#outgrown);
    for (const piece of this.#pieces) this.#copied(piece);
    this.#forget();
  }

  #bytes(): Buffer {
    if (this.#huge !== null) {
      this.#move(this.#huge, this.#length);
      return this.#huge.subarray(0, this.#length);
    }
    this.#seal();
    const [first = NOTHING] = this.#pieces;
    if (this.#pieces.length <= 1) return first;
    // From the pool: if the body is only passed on, its memory can be returned.
    const bytes = takeBuffer(this.#length);
    this.#move(bytes, this.#length);
    return bytes;
  }

  #isHuge(piece: Buffer): boolean {
    return this.#huge !== null || this.#length + piece.length > HUGE_BYTES;
  }

  #addToHuge(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (this.#huge === null || length > this.#huge.length) {
      this.#outgrow();
      this.#huge = takeBuffer(blockFor(length));
    }
    piece.copy(this.#huge, this.#length);
    this.#move(this.#huge, MOVED_AT_ONCE);
    this.#length = length;
    this.#copied(piece);
  }

  #outgrow(): void {
    this.#seal();
    if (this.#huge === null) return;
    this.#pieces = [this.#bytes()];
    this.#moved = 0;
    this.#outgrown = this.#huge;
  }

  /** Moves about `bytes` bytes of the first pieces to their place in `target`. */
  #move(target: Buffer, bytes: number): void {
    while (bytes > 0 && this.#pieces.length > 0) {
      const piece = this.#pieces[0]!;
      const part = this.#outgrown === null ? piece : piece.subarray(0, bytes);
      this.#moved += part.copy(target, this.#moved);
      bytes -= part.length;
      if (part.length < piece.length) this.#pieces[0] = piece.subarray(part.length);
      else {
        this.#pieces.shift();
        if (this.#outgrown === null) this.#copied(piece);
        else claimAndReturn(this.#outgrown);
        this.#outgrown = null;
      }
    }
  }

  #forget(): void {
    this.#huge = null;
    this.#outgrown = null;
    this.#pieces = [];
    this.#moved = 0;
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

/** The block size for so many bytes: 4 MiB, 16 MiB (the default message limit), 64 MiB and so on. */
function blockFor(bytes: number): number {
  let block = FIRST_HUGE_BLOCK;
  while (block < bytes) block *= HUGE_GROWTH;
  return block;
}

function leave(): void {}
