import { ByNumber } from '../../model/by-number.ts';
import type { CallId } from './frames.ts';

/** Families are kept while they have no calls, because they soon have: as many as a cluster has nodes. */
const KEPT_FAMILIES = 64;

/**
 * Calls that have not ended, of one peer or of many, by their ids. A peer may count from 0, which is no number for a place:
 * each call has the next one.
 */
export class CallTable<Call extends CallId> {
  readonly #families = new Map<number, ByNumber<Call>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(family: number, number: number): Call | undefined {
    return this.#families.get(family)?.get(number + 1);
  }

  /** There must be none with its id. */
  add(call: Call): void {
    let calls = this.#families.get(call.family);
    if (calls === undefined) this.#families.set(call.family, (calls = new ByNumber()));
    calls.set(call.number + 1, call);
    this.#size++;
  }

  /** No-op for what is not in it. */
  delete({ family, number }: CallId): void {
    const calls = this.#families.get(family);
    if (calls?.delete(number + 1) !== true) return;
    this.#size--;
    if (calls.size === 0 && this.#families.size > KEPT_FAMILIES) this.#families.delete(family);
  }

  /** As they are now. */
  values(): Call[] {
    return [...this.#families.values()].flatMap((calls) => calls.inOrder());
  }
}
