/** Numbers by key, with their sum. Keys with 0 are not stored. */
export class Counts {
  readonly #counts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  /** The keys with the largest numbers, in descending order. */
  most(limit: number): readonly (readonly [string, number])[] {
    return [...this.#counts].sort(([, one], [, other]) => other - one).slice(0, limit);
  }

  add(key: string, more: number): void {
    this.#total += more;
    const count = this.of(key) + more;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
  }
}
