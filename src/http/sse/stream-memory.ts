import type { Socket } from 'node:net';
import type { HttpContext } from '../context/http-context.ts';
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
 * slow client would stay until the whole heap is gone through, long after the client was cut off (F16): beside 1,000
 * stalled streams (goal:G16) 24 MiB more are resident than before, and 99 MiB without the blocks.
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

/** What was written together. */
interface Loan {
  readonly blocks: readonly Buffer[];
  /** Everything has been read from them when the kernel has taken so many bytes of the connection; Infinity: not known yet. */
  until: number;
}

/** The blocks of one stream that the kernel may still read from. They go back as it takes what was written, in order. */
export class PooledBlocks {
  readonly #socket: Socket;
  readonly #http: HttpContext;
  readonly #memory: StreamMemory;
  #loans: Loan[] = [];

  constructor(http: HttpContext, memory: StreamMemory) {
    this.#http = http;
    this.#socket = http.socket;
    this.#memory = memory;
  }

  get none(): boolean {
    return this.#loans.length === 0;
  }

  /** Blocks whose bytes were written just now. */
  add(blocks: readonly Buffer[]): void {
    this.#loans.push({ blocks, until: this.#end });
  }

  takeBack(): void {
    if (this.#loans.length === 0 || this.#socket.destroyed) return;
    const taken = this.#socket.bytesWritten - this.#socket.writableLength;
    const end = this.#end;
    let read = 0;
    for (const loan of this.#loans) if (loan.until === Number.POSITIVE_INFINITY) loan.until = end;
    while (read < this.#loans.length && this.#loans[read]!.until <= taken)
      this.#memory.giveBack(this.#loans[read++]!.blocks);
    if (read > 0) this.#loans = this.#loans.slice(read);
  }

  /**
   * The byte of the connection behind all that was written. What waits in the socket counts as written; what waits behind
   * another answer does not, nor is it known how much comes before it.
   */
  get #end(): number {
    return this.#http.queuedBytes > 0 ? Number.POSITIVE_INFINITY : this.#socket.bytesWritten;
  }

  /** The stream has ended, its connection perhaps not: what may still be read from goes back when it is closed. */
  leave(): void {
    this.takeBack();
    const left = this.#loans;
    this.#loans = [];
    if (left.length === 0) return;
    const giveBack = () => {
      for (const { blocks } of left) this.#memory.giveBack(blocks);
    };
    if (this.#socket.closed) giveBack();
    else this.#socket.once('close', giveBack);
  }
}
