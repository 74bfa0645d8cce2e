import type { Applied, ListOptions, Truth, TruthRecord, TruthSnapshot } from '../../store/truth/truth.ts';

/**
 * What was decided, for somebody who only looks: a command that starts servers for as long as it takes offers what a
 * gateway would, and what it sees first is trusted by nobody but itself.
 */
export class UntouchedTruth implements Truth {
  readonly #truth: Truth;

  constructor(truth: Truth) {
    this.#truth = truth;
  }

  read(collections: readonly string[]): Promise<TruthSnapshot> {
    return this.#truth.read(collections);
  }

  get(collection: string, key: string): Promise<TruthRecord | null> {
    return this.#truth.get(collection, key);
  }

  list(collection: string, options?: ListOptions): Promise<readonly TruthRecord[]> {
    return this.#truth.list(collection, options);
  }

  /** Counts for this process, which holds it in memory, and is written nowhere. */
  apply(): Promise<Applied> {
    return Promise.resolve({ ok: true, revision: 0 });
  }

  close(): Promise<void> {
    return this.#truth.close();
  }
}
