import type { Sealing } from '../model/sealing.ts';
import type { RunTimeStore, StoreRecord } from '../store/run-time-store/run-time-store.ts';

/** What of the run-time store credentials are kept in. */
export type Records = Pick<RunTimeStore, 'list' | 'apply'>;

export interface Kept<T> {
  readonly key: string;
  readonly value: T;
  readonly revision: number;
}

/**
 * One kind of record, sealed: without the key of this installation, or of the cluster, what is stored says nothing. Each is
 * bound to its place. Of two concurrent writers one fails.
 */
export class SealedRecords<T> {
  readonly #records: Records;
  readonly #sealing: Sealing;
  readonly #collection: string;

  constructor(records: Records, sealing: Sealing, collection: string) {
    this.#records = records;
    this.#sealing = sealing;
    this.#collection = collection;
  }

  async get(key: string): Promise<Kept<T> | null> {
    const found = (await this.#records.list(this.#collection, { prefix: key })).find((record) => record.key === key);
    return found === undefined ? null : this.#opened(found);
  }

  async all(): Promise<readonly Kept<T>[]> {
    const all: Kept<T>[] = [];
    for (let after: string | undefined; ; ) {
      const page = await this.#records.list(this.#collection, after === undefined ? {} : { after });
      all.push(...page.flatMap((record) => this.#opened(record) ?? []));
      after = page.at(-1)?.key;
      if (after === undefined) return all;
    }
  }

  /** Its new revision. `expected`: the one that it has, null for none, absent for any; null where it has another. */
  async put(key: string, value: T, expected?: number | null): Promise<number | null> {
    const sealed = this.#sealing.seal(this.#context(key), JSON.stringify(value));
    const write = { kind: 'put', collection: this.#collection, key, value: sealed } as const;
    const applied = await this.#records.apply([expected === undefined ? write : { ...write, expected }]);
    return applied.ok ? applied.revision : null;
  }

  /** False where it has another revision than expected. */
  async delete(key: string, expected?: number): Promise<boolean> {
    const write = { kind: 'delete', collection: this.#collection, key } as const;
    return (await this.#records.apply([expected === undefined ? write : { ...write, expected }])).ok;
  }

  /** null for what was sealed with a key that is not known any more: it is as good as gone. */
  #opened({ key, value, revision }: StoreRecord): Kept<T> | null {
    const text = this.#sealing.open(this.#context(key), value);
    return text === null ? null : { key, value: JSON.parse(text) as T, revision };
  }

  #context(key: string): string {
    return `${this.#collection}|${key}`;
  }
}
