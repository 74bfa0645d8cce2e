interface Reading<T> {
  readonly done: Promise<T>;
  /** The one after it, for all who asked since it began. */
  next: Promise<T> | null;
}

/**
 * What is read of others, by key, so that each caller gets what was there when it asked, or later. What is being read may
 * have been written before: however many ask meanwhile, they share the reading after it.
 */
export class CoalescedReads<T> {
  readonly #readings = new Map<string, Reading<T>>();

  /** Whether it is being read. */
  has(key: string): boolean {
    return this.#readings.has(key);
  }

  get(key: string, read: () => Promise<T>): Promise<T> {
    const reading = this.#readings.get(key);
    if (reading === undefined) return this.begin(key, read);
    const after = (): Promise<T> => this.#readings.get(key)?.done ?? this.begin(key, read);
    reading.next ??= reading.done.then(after, after);
    return reading.next;
  }

  /** Where nothing is being read. */
  begin(key: string, read: () => Promise<T>): Promise<T> {
    const done = read().finally(() => this.#readings.delete(key));
    this.#readings.set(key, { done, next: null });
    return done;
  }
}
