import { letGo, releaseBytes, takeBuffer } from './pooled-buffers.ts';

/** Small pieces are gathered in blocks, so that a byte-by-byte writer costs bytes, not objects. */
const MIN_BLOCK_BYTES = 1024;
const MAX_BLOCK_BYTES = 64 * 1024;
/** Of less, a copy is kept. */
export const SMALL_PIECE = MAX_BLOCK_BYTES / 4;
/**
 * Larger bodies are copied as they come into one block, which grows by this factor: joined at the end they would block
 * others and take twice the memory.
 */
const HUGE_BYTES = 2 * 1024 * 1024;
const FIRST_HUGE_BLOCK = 4 * 1024 * 1024;
const HUGE_GROWTH = 4;
/** What was there before a block is moved into it by so much for each piece: fresh memory costs ten times what copying does. */
const MOVED_AT_ONCE = 256 * 1024;
const NOTHING = Buffer.alloc(0);

/** The pieces of a body, joined once. Small ones, and all of a huge body, are copied; large ones stay until then. */
export class ByteGatherer {
  /** Of a piece that was copied. */
  readonly #copied: (piece: Buffer) => void;
  /** Where all of it will be, once that is huge: everything but its beginning is there already. */
  #huge: Buffer | null = null;
  /** The block before that, while its bytes are the only piece and are being moved. */
  #outgrown: Buffer | null = null;
  /** What is nowhere else, in order. */
  #pieces: Buffer[] = [];
  /** Bytes that were pieces before. */
  #moved = 0;
  #length = 0;
  #block: Buffer | null = null;
  #blockUsed = 0;

  /** `own`: the pieces belong to the gatherer, so that the memory of each is free as soon as it is copied. */
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

  /** Like `add`, for a piece whose memory its owner writes to afterwards. */
  addCopy(piece: Buffer): void {
    const copied = piece.length < SMALL_PIECE || this.#isHuge(piece);
    this.add(copied ? piece : Buffer.from(piece));
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
      const all = this.#whole();
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
    if (this.#huge !== null) letGo(this.#huge);
    if (this.#outgrown !== null) letGo(this.#outgrown);
    for (const piece of this.#pieces) this.#copied(piece);
    this.#forget();
  }

  #whole(): Buffer {
    if (this.#huge !== null) {
      this.#move(this.#huge, this.#length);
      return this.#huge.subarray(0, this.#length);
    }
    this.#seal();
    const [first = NOTHING] = this.#pieces;
    if (this.#pieces.length <= 1) return first;
    // It may be given back, should it turn out to be passed on and no more.
    const whole = takeBuffer(this.#length);
    this.#move(whole, this.#length);
    return whole;
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
    this.#pieces = [this.#whole()];
    this.#moved = 0;
    this.#outgrown = this.#huge;
  }

  /** The next bytes of the pieces to where they belong, about so many. */
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
        else letGo(this.#outgrown);
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

/** One of these sizes is the default limit of messages. */
function blockFor(bytes: number): number {
  let block = FIRST_HUGE_BLOCK;
  while (block < bytes) block *= HUGE_GROWTH;
  return block;
}

function leave(): void {}
