/** The last `capacity` bytes of a stream, in one fixed buffer. */
export class ByteRing {
  readonly #bytes: Buffer;
  #next = 0;
  #wrapped = false;

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Whether the ring has been filled, so that older bytes may be gone. */
  get wrapped(): boolean {
    return this.#wrapped;
  }

  push(chunk: Buffer): void {
    const capacity = this.#bytes.length;
    if (chunk.length >= capacity) {
      chunk.copy(this.#bytes, 0, chunk.length - capacity);
      this.#wrapped = true;
      this.#next = 0;
      return;
    }
    const fits = Math.min(chunk.length, capacity - this.#next);
    chunk.copy(this.#bytes, this.#next, 0, fits);
    chunk.copy(this.#bytes, 0, fits);
    this.#next += chunk.length;
    if (this.#next >= capacity) {
      this.#next -= capacity;
      this.#wrapped = true;
    }
  }

  /** A copy, oldest byte first. */
  contents(): Buffer {
    if (!this.#wrapped) return Buffer.from(this.#bytes.subarray(0, this.#next));
    return Buffer.concat([this.#bytes.subarray(this.#next), this.#bytes.subarray(0, this.#next)]);
  }
}
