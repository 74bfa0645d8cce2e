/**
 * Durable records by collection and key: SQLite for one node, PostgreSQL for a cluster, under one suite
 * (run-time-store.contract.ts). Each concern has its own port over it.
 */

export interface StoreRecord {
  readonly key: string;
  readonly value: string;
  /** Of the change that wrote it last; grows over all collections, and is never given twice. */
  readonly revision: number;
}

export type StoreWrite = {
  readonly collection: string;
  readonly key: string;
  /** The revision of the record, null for no record, absent for any. Of two concurrent writers one fails. */
  readonly expected?: number | null;
} & ({ readonly kind: 'put'; readonly value: string } | { readonly kind: 'delete' });

export type Applied =
  | { readonly ok: true; readonly revision: number }
  /** Nothing of the change was written. `found` is what stood there instead: a revision, or null for nothing. */
  | { readonly ok: false; readonly write: StoreWrite; readonly found: number | null };

/** Everything of some collections at one instant. */
export interface StoreSnapshot {
  /** Of the last change of all. */
  readonly revision: number;
  /** By collection in the order asked for, then by key. */
  readonly records: ReadonlyMap<string, ReadonlyMap<string, StoreRecord>>;
}

export interface RunTimeStore {
  /** All records or StoreError: a record that cannot be believed makes the read fail and never shorter. */
  read(collections: readonly string[]): Promise<StoreSnapshot>;
  /** Some records of a collection, in the order of their keys: those that begin with `prefix`, and come after `after`. */
  list(collection: string, options?: ListOptions): Promise<readonly StoreRecord[]>;
  /** All writes or none, durable when it resolves. Rejects with StoreError: nothing was written, or `unknown`. */
  apply(writes: readonly StoreWrite[]): Promise<Applied>;
  /** Whether another process has written since this was asked last; absent where a follower looks more often. */
  changedElsewhere?(): boolean;
  close(): Promise<void>;
}

export interface ListOptions {
  readonly prefix?: string;
  /** The last key of the page before. */
  readonly after?: string;
  readonly limit?: number;
}

export const LIST_LIMIT = 1_000;

/** Bounds of one change and of the whole, so that no caller can make it slow for the others. */
export const STORE_LIMITS = { keyBytes: 1_024, valueBytes: 1024 * 1024, writes: 1_000, changeBytes: 8 * 1024 * 1024 };

/**
 * Why it failed. `full`: the disk. `lost`: the file is gone or another. `damaged`: not as written. `unknown`: the
 * outcome of the change. `unavailable`: all else.
 */
export type StoreFault = 'full' | 'lost' | 'damaged' | 'unknown' | 'unavailable';

export class StoreError extends Error {
  readonly fault: StoreFault;

  constructor(fault: StoreFault, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.fault = fault;
  }
}

/** What is beyond the bounds is the caller's mistake, and callers that let users write refuse it before. */
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
