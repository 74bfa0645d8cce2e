import type { Bus } from '../../bus/bus.ts';
import type { Applied, ListOptions, Truth, TruthRecord, TruthSnapshot, TruthWrite } from '../../store/truth/truth.ts';

/** Code that has written to the store reports it here, with the revision. */
export const TRUTH_WRITTEN = 'trunkline.truth';

/** The store that nodes share. It notifies the others of changes, so that they need not wait for their next poll. */
export class ToldTruth implements Truth {
  readonly #truth: Truth;
  readonly #bus: Bus;

  constructor(truth: Truth, bus: Bus) {
    this.#truth = truth;
    this.#bus = bus;
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

  async apply(writes: readonly TruthWrite[]): Promise<Applied> {
    const applied = await this.#truth.apply(writes);
    if (applied.ok) this.#bus.publish(TRUTH_WRITTEN, Buffer.from(String(applied.revision)));
    return applied;
  }

  close(): Promise<void> {
    return this.#truth.close();
  }
}
