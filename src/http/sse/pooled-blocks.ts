import type { Socket } from 'node:net';
import type { HttpContext } from '../context/http-context.ts';
import type { StreamMemory } from './stream-memory.ts';

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
