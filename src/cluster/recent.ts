/** A map that forgets what was not used for longest. */
export class Recent<Value> {
  readonly #values = new Map<string, Value>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#values.size;
  }

  get(key: string): Value | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  /** As `get`, and no use. */
  peek(key: string): Value | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: Value): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size > this.#max) this.#values.delete(this.#values.keys().next().value!);
  }

  delete(key: string): void {
    this.#values.delete(key);
  }

  deleteWhere(matches: (value: Value, key: string) => boolean): void {
    for (const [key, value] of this.#values) if (matches(value, key)) this.#values.delete(key);
  }

  entries(): Iterable<readonly [string, Value]> {
    return this.#values.entries();
  }
}
