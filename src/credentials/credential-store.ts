import type { Sealing } from '../model/sealing.ts';
import type { Applied, RunTimeStore, StoreRecord } from '../store/run-time-store/run-time-store.ts';

/** The part of the run-time store that stores credentials. */
export type Records = Pick<RunTimeStore, 'list' | 'apply'>;

export interface StoredValue<T> {
  readonly key: string;
  readonly value: T;
  readonly revision: number;
}

/**
 * Records of one collection, sealed with the key of this installation or of the cluster. A seal is bound to its collection and
 * key. Of two concurrent writers one fails.
 */
export class SealedRecords<T> {
  readonly #records: Records;
  readonly #sealing: Sealing;
  readonly #collection: string;
  /** Keys of the records that no key opened at the last complete read; reported to the operator, and otherwise ignored. */
  unreadable: readonly string[] = [];

  constructor(records: Records, sealing: Sealing, collection: string) {
    this.#records = records;
    this.#sealing = sealing;
    this.#collection = collection;
  }

  async get(key: string): Promise<StoredValue<T> | null> {
    const found = await this.#stored(key);
    return found === undefined ? null : this.#opened(found);
  }

  async all(): Promise<readonly StoredValue<T>[]> {
    const all: StoredValue<T>[] = [];
    const unreadable: string[] = [];
    for await (const record of recordsOf(this.#records, this.#collection)) {
      const kept = this.#opened(record);
      if (kept === null) unreadable.push(record.key);
      else all.push(kept);
    }
    this.unreadable = unreadable;
    return all;
  }

  /** Returns the new revision. `expected`: the present one, null for no record, absent for any; returns null if it differs. */
  async put(key: string, value: T, expected?: number | null): Promise<number | null> {
    const text = JSON.stringify(value);
    let applied = await this.#write(key, text, expected);
    if (!applied.ok && expected === null) {
      const there = await this.#stored(key);
      // A record that no key opens counts as none.
      if (there !== undefined && this.#opened(there) === null) applied = await this.#write(key, text, there.revision);
    }
    return applied.ok ? applied.revision : null;
  }

  /** False if the record has another revision than expected. */
  async delete(key: string, expected?: number): Promise<boolean> {
    const write = { kind: 'delete', collection: this.#collection, key } as const;
    return (await this.#records.apply([expected === undefined ? write : { ...write, expected }])).ok;
  }

  async #write(key: string, text: string, expected: number | null | undefined): Promise<Applied> {
    const context = contextOf(this.#collection, key);
    const sealed = this.#sealing.seal(context, text);
    const write = { kind: 'put', collection: this.#collection, key, value: sealed } as const;
    const applied = await this.#records.apply([expected === undefined ? write : { ...write, expected }]);
    // Another process has changed the sealing key meanwhile and may have passed this record already.
    if (!applied.ok || this.#sealing.outdated?.(context, sealed) !== true) return applied;
    const again = await this.#write(key, text, applied.revision);
    return again.ok ? again : applied;
  }

  async #stored(key: string): Promise<StoreRecord | undefined> {
    return (await this.#records.list(this.#collection, { prefix: key })).find((record) => record.key === key);
  }

  /** Null if the record was sealed with a key that is no longer known. */
  #opened({ key, value, revision }: StoreRecord): StoredValue<T> | null {
    const text = this.#sealing.open(contextOf(this.#collection, key), value);
    return text === null ? null : { key, value: JSON.parse(text) as T, revision };
  }
}

/** The context that a seal is bound to. */
export function contextOf(collection: string, key: string): string {
  return `${collection}|${key}`;
}

export async function* recordsOf(records: Records, collection: string): AsyncGenerator<StoreRecord> {
  for (let after: string | undefined; ; ) {
    const page = await records.list(collection, after === undefined ? {} : { after });
    yield* page;
    after = page.at(-1)?.key;
    if (after === undefined) return;
  }
}
