interface Waiting {
  readonly revision: number;
  readonly resolve: () => void;
}

/** How far the records of a bucket were written and heard of, for whoever waits for that. */
export class Progress {
  readonly #written = new Map<string, ((revision: number) => void)[]>();
  #upTo = 0;
  #waiting: Waiting[] = [];

  /** Resolves when the record is written next, with its revision. */
  written(key: string): Promise<number> {
    return new Promise((resolve) => {
      const waiting = this.#written.get(key);
      if (waiting === undefined) this.#written.set(key, [resolve]);
      else waiting.push(resolve);
    });
  }

  wrote(key: string, revision: number): void {
    const waiting = this.#written.get(key) ?? [];
    this.#written.delete(key);
    for (const resolve of waiting) resolve(revision);
  }

  heardUpTo(revision: number): Promise<void> {
    if (revision <= this.#upTo) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ revision, resolve }));
  }

  heard(revision: number): void {
    if (revision <= this.#upTo) return;
    this.#upTo = revision;
    if (this.#waiting.length === 0) return;
    const reached = this.#waiting.filter((one) => one.revision <= revision);
    this.#waiting = this.#waiting.filter((one) => one.revision > revision);
    for (const { resolve } of reached) resolve();
  }

  /** Everything is told again; in another making of the bucket, revisions begin again. */
  beginAnew(): void {
    this.#upTo = 0;
  }
}
