import { planChange, type StoredRow, type StoreSummary } from '../../store/run-time-store/integrity-check.ts';
import type { StoreSnapshot, StoreWrite } from '../../store/run-time-store/run-time-store.ts';

/** The records that result from a change log. */
export class RecordSet {
  #summary: StoreSummary;
  readonly #collections = new Map<string, Map<string, StoredRow>>();

  constructor(revision = 0, rows: Iterable<StoredRow> = []) {
    this.#summary = { revision, count: 0, tally: 0 };
    for (const row of rows) this.#put(row);
  }

  static of({ revision, records }: StoreSnapshot, except: string): RecordSet {
    const rows: StoredRow[] = [];
    for (const [collection, some] of records) {
      if (collection === except) continue;
      for (const { key, value, revision } of some.values()) rows.push({ collection, key, value, revision, sum: 0 });
    }
    return new RecordSet(revision, rows);
  }

  get revision(): number {
    return this.#summary.revision;
  }

  get collections(): Iterable<string> {
    return this.#collections.keys();
  }

  of(collection: string): ReadonlyMap<string, StoredRow> {
    return this.#collections.get(collection) ?? new Map();
  }

  *rows(): Iterable<StoredRow> {
    for (const rows of this.#collections.values()) yield* rows.values();
  }

  /** Plans a change; `summary` of the plan is null if the writes change nothing. */
  plan(writes: readonly StoreWrite[], revision = this.revision + 1) {
    const found = writes.flatMap(({ collection, key }) => this.of(collection).get(key) ?? []);
    return planChange({ ...this.#summary, revision: revision - 1 }, found, writes);
  }

  take({ summary, puts, drops }: Extract<ReturnType<typeof planChange>, { ok: true }>): void {
    if (summary === null) return;
    for (const { collection, key } of drops) this.#collections.get(collection)?.delete(key);
    for (const row of puts) this.#put(row);
    this.#summary = summary;
  }

  #put(row: StoredRow): void {
    let rows = this.#collections.get(row.collection);
    if (rows === undefined) this.#collections.set(row.collection, (rows = new Map()));
    rows.set(row.key, row);
  }
}

/**
 * The writes that add what this node knows to a store that was created again without it. `base`: the revision that the store was
 * created with; its changes since then stay.
 */
export function missingWrites(there: RecordSet, base: number, known: RecordSet): readonly StoreWrite[] {
  const writes: StoreWrite[] = [];
  for (const collection of known.collections) {
    const rows = there.of(collection);
    for (const [key, { value, revision }] of known.of(collection)) {
      const row = rows.get(key);
      if (revision <= base || (row !== undefined && (row.revision > base || row.value === value))) continue;
      writes.push({ kind: 'put', collection, key, value, expected: row?.revision ?? null });
    }
    for (const [key, { revision }] of rows) {
      const isDeleted = revision <= base && known.revision > base && !known.of(collection).has(key);
      if (isDeleted) writes.push({ kind: 'delete', collection, key, expected: revision });
    }
  }
  return writes;
}
