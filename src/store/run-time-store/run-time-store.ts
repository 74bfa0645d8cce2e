/**
 * Durable records by collection and key: SQLite for one node, PostgreSQL for a cluster, with one test suite for both
 * (run-time-store.contract.ts). Each module that stores records has its own port over it.
 */

export interface StoreRecord {
  readonly key: string;
  readonly value: string;
  /** Revision of the change that wrote the record; increases over all collections and is never reused. */
  readonly revision: number;
}

export type StoreWrite = {
  readonly collection: string;
  readonly key: string;
  /** The expected revision of the record, null for no record, absent for any. Of two concurrent writers one fails. */
  readonly expected?: number | null;
} & ({ readonly kind: 'put'; readonly value: string } | { readonly kind: 'delete' });

export type Applied =
  | { readonly ok: true; readonly revision: number }
  /** Nothing was written. `found`: the revision of the present record, or null for none. */
  | { readonly ok: false; readonly write: StoreWrite; readonly found: number | null };

/** All records of some collections at one instant. */
export interface StoreSnapshot {
  /** Revision of the last change in any collection. */
  readonly revision: number;
  /** By collection in the requested order, then by key. */
  readonly records: ReadonlyMap<string, ReadonlyMap<string, StoreRecord>>;
}

export interface RunTimeStore {
  /** Returns all records or rejects with StoreError: a damaged record makes the read fail and is never left out. */
  read(collections: readonly string[]): Promise<StoreSnapshot>;
  /** Records of a collection whose keys begin with `prefix` and follow `after`, in the order of their keys. */
  list(collection: string, options?: ListOptions): Promise<readonly StoreRecord[]>;
  /** Applies all writes or none; durable when it resolves. After StoreError nothing was written, or the fault is `unknown`. */
  apply(writes: readonly StoreWrite[]): Promise<Applied>;
  /** Whether another process has written since the last call; absent if a follower polls the store. */
  changedElsewhere?(): boolean;
  close(): Promise<void>;
}

export interface ListOptions {
  readonly prefix?: string;
  /** The last key of the previous page. */
  readonly after?: string;
  readonly limit?: number;
}

export const LIST_LIMIT = 1_000;

/** Bounds of a record and of a change, so that no caller can slow down the others. */
export const STORE_LIMITS = { keyBytes: 1_024, valueBytes: 1024 * 1024, writes: 2_048, changeBytes: 8 * 1024 * 1024 };

/**
 * Why an operation failed. `full`: the disk is full. `lost`: the file was removed or replaced. `damaged`: not as written.
 * `unknown`: the outcome of the change is unknown. `unavailable`: any other reason.
 */
export type StoreFault = 'full' | 'lost' | 'damaged' | 'unknown' | 'unavailable';

export class StoreError extends Error {
  readonly fault: StoreFault;

  constructor(fault: StoreFault, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.fault = fault;
  }
}

/** Throws RangeError for writes beyond the bounds; callers that accept input of users must check it first. */
export function checkBounds(writes: readonly StoreWrite[]): void {
  const { keyBytes, valueBytes, writes: most, changeBytes } = STORE_LIMITS;
  if (writes.length > most) throw new RangeError(`a change has at most ${most} writes`);
  let bytes = 0;
  for (const write of writes) {
    const { collection, key } = write;
    const value = write.kind === 'put' ? write.value : '';
    if (
      collection === '' ||
      key === '' ||
      Buffer.byteLength(key) > keyBytes ||
      Buffer.byteLength(collection) > keyBytes
    )
      throw new RangeError(`a key has 1 to ${keyBytes} bytes`);
    for (const text of [collection, key, value]) {
      if (!text.isWellFormed() || text.includes('\0')) throw new RangeError('text has no NUL and no half characters');
    }
    const length = Buffer.byteLength(value);
    if (length > valueBytes) throw new RangeError(`a record has at most ${valueBytes} bytes`);
    bytes += length;
  }
  if (bytes > changeBytes) throw new RangeError(`a change has at most ${changeBytes} bytes`);
}
