/** The last `capacity` entries, oldest first. Adding is O(1); nothing is copied but on `toArray`. */
export class RingBuffer<T> {
  readonly #slots: (T | undefined)[];
  #next = 0;
  #size = 0;

  constructor(capacity: number) {
    if (!Number.isInteger(capacity) || capacity < 1)
      throw new RangeError(`capacity must be a positive integer, not ${capacity}`);
    this.#slots = new Array<T | undefined>(capacity);
  }

  get size(): number {
    return this.#size;
  }

  push(entry: T): void {
    this.#slots[this.#next] = entry;
    this.#next = (this.#next + 1) % this.#slots.length;
    if (this.#size < this.#slots.length) this.#size++;
  }

  toArray(): T[] {
    const first = (this.#next - this.#size + this.#slots.length) % this.#slots.length;
    return Array.from({ length: this.#size }, (_, i) => this.#slots[(first + i) % this.#slots.length] as T);
  }
}
