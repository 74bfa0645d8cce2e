import type { Payload } from '../bus.ts';

/** A payload of one or several buffers, copied out from its beginning to its end. */
export class Pieces {
  readonly #buffers: readonly Buffer[];
  #at = 0;
  #offset = 0;
  left = 0;

  constructor(payload: Payload) {
    this.#buffers = Buffer.isBuffer(payload) ? [payload] : (payload as readonly Buffer[]);
    for (const buffer of this.#buffers) this.left += buffer.length;
  }

  /** The next bytes; there must be so many left. */
  copy(target: Buffer, at: number, bytes: number): void {
    this.left -= bytes;
    while (bytes > 0) {
      const source = this.#buffers[this.#at]!;
      const count = Math.min(bytes, source.length - this.#offset);
      source.copy(target, at, this.#offset, this.#offset + count);
      at += count;
      bytes -= count;
      this.#offset += count;
      if (this.#offset === source.length) {
        this.#at++;
        this.#offset = 0;
      }
    }
  }
}
