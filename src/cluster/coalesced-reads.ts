/** Returns the running task of the key, or starts one. */
export function singleFlight<T>(running: Map<string, Promise<T>>, key: string, begin: () => Promise<T>): Promise<T> {
  let task = running.get(key);
  if (task === undefined) running.set(key, (task = begin().finally(() => running.delete(key))));
  return task;
}

interface Reading<T> {
  readonly done: Promise<T>;
  next: Promise<T> | null;
}

/** Coalesces reads by key. A value is never older than the request for it: callers during a read share the next one. */
export class CoalescedReads<T> {
  readonly #readings = new Map<string, Reading<T>>();

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

  begin(key: string, read: () => Promise<T>): Promise<T> {
    const done = read().finally(() => this.#readings.delete(key));
    this.#readings.set(key, { done, next: null });
    return done;
  }
}
