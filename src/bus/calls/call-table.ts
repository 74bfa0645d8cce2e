import { ByNumber } from '../../model/by-number.ts';
import type { CallId } from './frames.ts';

/** As many as a cluster has nodes: a family without calls soon has some. */
const KEPT_FAMILIES = 64;

/** Open calls by id. */
export class CallTable<Call extends CallId> {
  readonly #families = new Map<number, ByNumber<Call>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(family: number, number: number): Call | undefined {
    return this.#families.get(family)?.get(number + 1);
  }

  /** Its id must be new. */
  add(call: Call): void {
    let calls = this.#families.get(call.family);
    if (calls === undefined) this.#families.set(call.family, (calls = new ByNumber()));
    calls.set(call.number + 1, call);
    this.#size++;
  }

  /** No-op for unknown ids. */
  delete({ family, number }: CallId): void {
    const calls = this.#families.get(family);
    if (calls?.delete(number + 1) !== true) return;
    this.#size--;
    if (calls.size === 0 && this.#families.size > KEPT_FAMILIES) this.#families.delete(family);
  }

  /** A copy. */
  values(): Call[] {
    return [...this.#families.values()].flatMap((calls) => calls.inOrder());
  }
}
