import { type Clock, pause } from '../../model/clock.ts';

/** Whether a node has had a lease yet, and who waits for its first one. */
export class Joining {
  readonly #first = Promise.withResolvers<void>();
  #over = false;

  get over(): boolean {
    return this.#over;
  }

  /** The node has its lease, for the first time or again. */
  held(): void {
    this.#over = true;
    this.#first.resolve();
  }

  /** Resolves when the node has had a lease, at the latest after `waitMs`. */
  async within(clock: Clock, waitMs: number): Promise<void> {
    if (!this.#over) await Promise.race([this.#first.promise, pause(clock, waitMs)]);
  }
}
