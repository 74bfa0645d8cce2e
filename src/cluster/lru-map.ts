/**
 * An LRU map in two halves: a hit in the older half moves to the younger; when that is full, the older half is dropped. A look-up
 * costs no more than in a `Map`.
 */
export class LruMap<Value, Key = string> {
  readonly #max: number;
  #young = new Map<Key, Value>();
  #old = new Map<Key, Value>();
  /** It is not known any more that something was never set. */
  dropped = false;

  /** Keeps the last `max` used entries, and at most twice as many. */
  constructor(max: number) {
    this.#max = max;
  }

  get(key: Key): Value | undefined {
    const young = this.#young.get(key);
    if (young !== undefined || this.#old.size === 0) return young;
    const value = this.#old.get(key);
    if (value === undefined) return undefined;
    this.set(key, value);
    return value;
  }

  /** Does not count as use. */
  peek(key: Key): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  set(key: Key, value: Value): void {
    if (this.#old.size > 0) this.#old.delete(key);
    this.#young.set(key, value);
    if (this.#young.size < this.#max) return;
    this.dropped ||= this.#old.size > 0;
    this.#old = this.#young;
    this.#young = new Map();
  }

  delete(key: Key): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  deleteWhere(matches: (value: Value, key: Key) => boolean): void {
    for (const half of [this.#old, this.#young]) {
      for (const [key, value] of half) if (matches(value, key)) half.delete(key);
    }
  }

  replace(before: Value, after: Value): void {
    for (const half of [this.#old, this.#young]) {
      for (const [key, value] of half) if (value === before) half.set(key, after);
    }
  }

  *entries(): Generator<readonly [Key, Value], void> {
    yield* this.#old;
    yield* this.#young;
  }
}
