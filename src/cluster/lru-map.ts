/**
 * An approximate LRU map with two generations. A hit in the old one moves the entry to the young one; when that is full, the old
 * one is dropped. A look-up costs no more than in a `Map`.
 */
export class LruMap<Value, Key = string> {
  readonly #max: number;
  #recent = new Map<Key, Value>();
  #old = new Map<Key, Value>();
  /** Entries were dropped: a missing key may have been set before. */
  dropped = false;

  /** Keeps at least the `max` most recently used entries, and at most twice as many. */
  constructor(max: number) {
    this.#max = max;
  }

  get(key: Key): Value | undefined {
    const recent = this.#recent.get(key);
    if (recent !== undefined || this.#old.size === 0) return recent;
    const value = this.#old.get(key);
    if (value === undefined) return undefined;
    this.set(key, value);
    return value;
  }

  /** Does not count as use. */
  peek(key: Key): Value | undefined {
    return this.#recent.get(key) ?? this.#old.get(key);
  }

  set(key: Key, value: Value): void {
    if (this.#old.size > 0) this.#old.delete(key);
    this.#recent.set(key, value);
    if (this.#recent.size < this.#max) return;
    this.dropped ||= this.#old.size > 0;
    this.#old = this.#recent;
    this.#recent = new Map();
  }

  delete(key: Key): void {
    this.#recent.delete(key);
    this.#old.delete(key);
  }

  deleteWhere(matches: (value: Value, key: Key) => boolean): void {
    for (const [key, value] of this.entries()) if (matches(value, key)) this.delete(key);
  }

  replace(before: Value, after: Value): void {
    for (const half of [this.#old, this.#recent]) {
      for (const [key, value] of half) if (value === before) half.set(key, after);
    }
  }

  *entries(): Generator<readonly [Key, Value], void> {
    yield* this.#old;
    yield* this.#recent;
  }
}
