import type { SseFrame } from './sse-frame.ts';

const BLOCK_BYTES = 8 * 1024;
const SLAB_BLOCKS = 128;
/** Slabs that stay when nothing is in them, for those who come next. */
const IDLE_SLABS = 2;

interface Slab {
  readonly memory: ArrayBuffer;
  /** Where its free blocks begin. */
  readonly free: number[];
}

/**
 * Memory for what event streams hand to the kernel or hold back, in blocks. Left to the collector, what waits for a
 * slow client would stay until the whole heap is gone through, long after the client was cut off (F16).
 */
export class StreamMemory {
  readonly #slabs = new Map<ArrayBufferLike, Slab>();
  /** Those with a free block. */
  readonly #open: Slab[] = [];
  #idle = 0;
  #taken = 0;

  /** Bytes of all slabs. */
  get bytes(): number {
    return this.#slabs.size * SLAB_BLOCKS * BLOCK_BYTES;
  }

  /** Bytes of the blocks that were not given back. */
  get takenBytes(): number {
    return this.#taken * BLOCK_BYTES;
  }

  /** The frame in blocks. Its parts are to be given back, as they are. */
  copy(frame: SseFrame): SseFrame {
    const blocks: Buffer[] = [];
    let block = this.#take(frame.length);
    let used = 0;
    for (const part of frame.parts) {
      for (let at = 0; at < part.length; ) {
        if (used === block.length) {
          blocks.push(block);
          block = this.#take(frame.length - blocks.length * BLOCK_BYTES);
          used = 0;
        }
        const copied = part.copy(block, used, at);
        at += copied;
        used += copied;
      }
    }
    blocks.push(block);
    return { parts: blocks, length: frame.length, inBlocks: true };
  }

  giveBack(blocks: readonly Buffer[]): void {
    this.#taken -= blocks.length;
    for (const { buffer, byteOffset } of blocks) {
      const slab = this.#slabs.get(buffer)!;
      if (slab.free.push(byteOffset) === 1) this.#open.push(slab);
      if (slab.free.length === SLAB_BLOCKS) this.#rest(slab);
    }
  }

  #take(bytes: number): Buffer {
    const slab = this.#open.at(-1) ?? this.#add();
    if (slab.free.length === SLAB_BLOCKS) this.#idle--;
    const start = slab.free.pop()!;
    this.#taken++;
    if (slab.free.length === 0) this.#open.pop();
    return Buffer.from(slab.memory, start, Math.min(bytes, BLOCK_BYTES));
  }

  #add(): Slab {
    const memory = Buffer.allocUnsafeSlow(SLAB_BLOCKS * BLOCK_BYTES).buffer as ArrayBuffer;
    const slab = { memory, free: Array.from({ length: SLAB_BLOCKS }, (_, i) => i * BLOCK_BYTES) };
    this.#slabs.set(memory, slab);
    this.#open.push(slab);
    this.#idle++;
    return slab;
  }

  /** Nothing is in it any more. */
  #rest(slab: Slab): void {
    if (++this.#idle <= IDLE_SLABS) return;
    this.#idle--;
    this.#open.splice(this.#open.indexOf(slab), 1);
    this.#slabs.delete(slab.memory);
    slab.memory.transfer(0);
  }
}
