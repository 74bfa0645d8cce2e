/** Places at first; a power of two, as all sizes here. */
const FEW = 4;
/** More than so many are given back once nothing is in them. */
const KEPT = 64;

/**
 * Values by whole numbers above 0, thousands a second and few at a time. The old tables of a `Map` would point to new
 * ones, so that all of them outlive young collections; here places are used again, and a free one holds nothing.
 */
export class ByNumber<T> {
  /** 0: the place is free. */
  #numbers: number[] = [];
  #values: (T | undefined)[] = [];
  /** Which of all that were put in each was. */
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
    // What was put further on because places were taken moves up, so that it is found without this one.
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
    if (--this.#size === 0 && numbers.length > KEPT) this.clear();
    return true;
  }

  clear(): void {
    this.#numbers = [];
    this.#values = [];
    this.#turns = [];
    this.#size = 0;
  }

  /** As they are now, in the order in which they were put in. */
  numbers(): number[] {
    const places = this.#numbers.keys().filter((at) => this.#numbers[at] !== 0);
    const ordered = [...places].sort((a, b) => this.#turns[a]! - this.#turns[b]!);
    return ordered.map((at) => this.#numbers[at]!);
  }

  inOrder(): T[] {
    return this.numbers().map((number) => this.get(number)!);
  }

  /** As they are now, in no order, which costs less. */
  values(): T[] {
    return this.#values.filter((value) => value !== undefined);
  }

  /** The one that is wanted and was put in last; undefined where there is none. */
  last(wanted: (value: T) => boolean): T | undefined {
    let last = -1;
    for (let at = 0; at < this.#numbers.length; at++) {
      if (this.#numbers[at] === 0 || this.#turns[at]! < (this.#turns[last] ?? 0)) continue;
      if (wanted(this.#values[at]!)) last = at;
    }
    return this.#values[last];
  }

  /** -1: it is not there. */
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
