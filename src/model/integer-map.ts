/** Initial capacity; every capacity is a power of two. */
const FEW = 4;
/** Larger tables are released when they become empty. */
const MAX_IDLE_SLOTS = 64;

/**
 * Open-addressing hash table with positive integer keys, for few entries that change thousands of times a second. A `Map`
 * rehashes into new tables that survive young-generation collections; this table reuses its slots and clears freed ones.
 */
export class IntegerMap<T> {
  /** Keys by slot; 0 marks a free slot. */
  #numbers: number[] = [];
  #values: (T | undefined)[] = [];
  /** Insertion sequence numbers by slot. */
  #turns: number[] = [];
  #turn = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(number: number): T | undefined {
    const at = this.#placeOf(number);
    return at < 0 ? undefined : this.#values[at];
  }

  has(number: number): boolean {
    return this.#placeOf(number) >= 0;
  }

  set(number: number, value: T): void {
    const known = this.#placeOf(number);
    if (known >= 0) {
      this.#values[known] = value;
      return;
    }
    if ((this.#size + 1) * 4 > this.#numbers.length * 3) this.#grow();
    this.#put(number, value, ++this.#turn);
    this.#size++;
  }

  delete(number: number): boolean {
    let free = this.#placeOf(number);
    if (free < 0) return false;
    const numbers = this.#numbers;
    const values = this.#values;
    const mask = numbers.length - 1;
    // Moves back the entries that linear probing placed after this slot, so that look-ups still find them.
    for (let at = (free + 1) & mask; numbers[at] !== 0; at = (at + 1) & mask) {
      const wanted = numbers[at]! & mask;
      if (((at - wanted) & mask) < ((at - free) & mask)) continue;
      numbers[free] = numbers[at]!;
      values[free] = values[at];
      this.#turns[free] = this.#turns[at]!;
      free = at;
    }
    numbers[free] = 0;
    values[free] = undefined;
    if (--this.#size === 0 && numbers.length > MAX_IDLE_SLOTS) this.clear();
    return true;
  }

  clear(): void {
    this.#numbers = [];
    this.#values = [];
    this.#turns = [];
    this.#size = 0;
  }

  /** A snapshot of the keys in insertion order. */
  numbers(): number[] {
    const places = this.#numbers.keys().filter((at) => this.#numbers[at] !== 0);
    const ordered = [...places].sort((a, b) => this.#turns[a]! - this.#turns[b]!);
    return ordered.map((at) => this.#numbers[at]!);
  }

  inOrder(): T[] {
    return this.numbers().map((number) => this.get(number)!);
  }

  /** A snapshot of the values in no order, which is cheaper. */
  values(): T[] {
    return this.#values.filter((value) => value !== undefined);
  }

  /** The most recently inserted value that `wanted` accepts; undefined if there is none. */
  last(wanted: (value: T) => boolean): T | undefined {
    let last = -1;
    for (let at = 0; at < this.#numbers.length; at++) {
      if (this.#numbers[at] === 0 || this.#turns[at]! < (this.#turns[last] ?? 0)) continue;
      if (wanted(this.#values[at]!)) last = at;
    }
    return this.#values[last];
  }

  /** The slot of the key, or -1. */
  #placeOf(number: number): number {
    const numbers = this.#numbers;
    const mask = numbers.length - 1;
    if (this.#size === 0 || !(number > 0)) return -1;
    for (let at = number & mask; ; at = (at + 1) & mask) {
      const found = numbers[at];
      if (found === number) return at;
      if (found === 0) return -1;
    }
  }

  #put(number: number, value: T, turn: number): void {
    const mask = this.#numbers.length - 1;
    let at = number & mask;
    while (this.#numbers[at] !== 0) at = (at + 1) & mask;
    this.#numbers[at] = number;
    this.#values[at] = value;
    this.#turns[at] = turn;
  }

  #grow(): void {
    const numbers = this.#numbers;
    const values = this.#values;
    const turns = this.#turns;
    const places = Math.max(FEW, numbers.length * 2);
    this.#numbers = new Array<number>(places).fill(0);
    this.#values = new Array<T | undefined>(places).fill(undefined);
    this.#turns = new Array<number>(places).fill(0);
    for (let at = 0; at < numbers.length; at++) {
      if (numbers[at] !== 0) this.#put(numbers[at]!, values[at]!, turns[at]!);
    }
    values.length = 0;
  }
}
