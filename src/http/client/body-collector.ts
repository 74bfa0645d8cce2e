import { ByteGatherer } from '../../model/byte-gatherer.ts';
import { takeBuffer } from '../../model/pooled-buffers.ts';

/** Puts a body together in one buffer with one copy where its length is known, two otherwise. */
export class BodyCollector {
  readonly limit: number;
  readonly #parts = new ByteGatherer();
  #whole: Buffer | null;
  #length = 0;

  /** `known` is the length announced, at most `limit`; -1 without one. */
  constructor(known: number, limit: number) {
    this.limit = limit;
    this.#whole = known < 0 ? null : takeBuffer(known);
  }

  /**
   * Where the next bytes belong, so that a read can put them there itself; null where the length is not known. What was
   * read there is given to `add` like everything else, and then not copied.
   */
  get rest(): Buffer | null {
    return this.#whole === null ? null : this.#whole.subarray(this.#length);
  }

  /** Copies a range out of `bytes`. False when that is over the limit. */
  add(bytes: Buffer, from: number, to: number): boolean {
    const size = to - from;
    if (this.#whole !== null) {
      const inPlace =
        bytes.buffer === this.#whole.buffer && bytes.byteOffset + from === this.#whole.byteOffset + this.#length;
      if (!inPlace) bytes.copy(this.#whole, this.#length, from, to);
    } else {
      if (this.#length + size > this.limit) return false;
      this.#parts.addCopy(bytes.subarray(from, to));
    }
    this.#length += size;
    return true;
  }

  /** The body; null when it is empty. */
  take(): Buffer | null {
    if (this.#length === 0) return null;
    if (this.#whole !== null) return this.#whole;
    return this.#parts.take();
  }
}
