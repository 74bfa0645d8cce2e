/** What is waited for until it comes, or whoever waits gives up: then nothing of it is kept. */
export interface Wait<Value> {
  readonly come: Promise<Value>;
  readonly giveUp: () => void;
}

type Tell = (revision: number) => void;

/** How far the records of a bucket were written and heard of, for whoever waits for that. */
export class Progress {
  readonly #written = new Map<string, Set<Tell>>();
  readonly #unheard = new Map<Tell, number>();
  #upTo = 0;

  /** How many wait at the moment. */
  get waiting(): number {
    let waiting = this.#unheard.size;
    for (const { size } of this.#written.values()) waiting += size;
    return waiting;
  }

  /** Comes when the record is written next, with its revision. What is not written, because it is too large, never does. */
  written(key: string): Wait<number> {
    const { promise: come, resolve } = Promise.withResolvers<number>();
    const all = this.#written.get(key) ?? new Set();
    this.#written.set(key, all.add(resolve));
    const giveUp = (): void => {
      if (all.delete(resolve) && all.size === 0) this.#written.delete(key);
    };
    return { come, giveUp };
  }

  wrote(key: string, revision: number): void {
    const all = this.#written.get(key);
    if (all === undefined) return;
    this.#written.delete(key);
    for (const tell of all) tell(revision);
    all.clear();
  }

  /** Comes when everything up to this revision has been heard of. */
  heardUpTo(revision: number): Wait<number> {
    const { promise: come, resolve } = Promise.withResolvers<number>();
    if (revision <= this.#upTo) resolve(revision);
    else this.#unheard.set(resolve, revision);
    return { come, giveUp: () => this.#unheard.delete(resolve) };
  }

  heard(revision: number): void {
    if (revision <= this.#upTo) return;
    this.#upTo = revision;
    for (const [tell, wanted] of this.#unheard) {
      if (wanted > revision) continue;
      this.#unheard.delete(tell);
      tell(revision);
    }
  }

  /** Everything is told again; in another making of the bucket, revisions begin again. */
  beginAnew(): void {
    this.#upTo = 0;
  }
}
