/**
 * Port: a key-value store that all nodes share. Each record has a revision for compare-and-set, so that only one of several
 * concurrent changes succeeds. Holds leases and session records; data that must survive a power cut belongs in SQL.
 * `shared-state.contract.ts` covers every implementation.
 */
export interface SharedState {
  /** The first operation, and the first after a failure, creates the bucket if it is missing and updates its settings. */
  bucket(name: string, options: BucketOptions): Bucket;
}

export interface BucketOptions {
  /** Records expire this long after the last write. 0: never. */
  readonly ttlMs: number;
  /** Default 64 KiB. */
  readonly maxValueBytes?: number;
}

/**
 * Keys are words of `[A-Za-z0-9_=-]` separated by dots. Operations reject with GatewayError NOT_SENT if they certainly did not
 * happen, otherwise UNKNOWN: the caller must read again.
 */
export interface Bucket {
  readonly name: string;
  /**
   * Changes when a lost bucket is recreated, which may restart its revisions. Together with a revision it is a fencing token; it
   * contains no dot. The last value seen; empty before the first operation.
   */
  readonly incarnation: string;
  /** Reads the incarnation from the store: another node may have recreated the bucket. */
  readIncarnation(): Promise<string>;
  get(key: string): Promise<StateRecord | null>;
  /** Returns `deleted` while the tombstone exists; null if the record never existed, expired, or was lost. */
  look(key: string): Promise<StateRecord | 'deleted' | null>;
  /** Returns null if the record exists. */
  create(key: string, value: Buffer): Promise<number | null>;
  /** Like `create`, for a record lost with its bucket: also returns null while its tombstone exists. */
  restore(key: string, value: Buffer): Promise<number | null>;
  /** Returns null if the revision differs or the record is gone. */
  update(key: string, value: Buffer, revision: number): Promise<number | null>;
  /** Returns false if the revision differs; unconditional without one. Leaves a tombstone for the TTL. */
  delete(key: string, revision?: number): Promise<boolean>;
  /**
   * Removes older tombstones, for callers that do not need them for the whole TTL; keeps that of the newest change. Returns the
   * number removed.
   */
  purgeTombstones(olderThanMs: number): Promise<number>;
  /** Lists matching keys (`*`, `>`), without deleted ones. */
  keys(pattern?: string): Promise<readonly string[]>;
  /**
   * Calls `onBegin`, then `put` for every matching record and `gone` for every tombstone, then `onReady`; then reports changes in
   * order, perhaps only the last of several quick changes of one record. After an outage it restarts with `onBegin`: a record
   * without a `put` before a `complete` `onReady` no longer exists. Not every implementation reports expired records: a watcher that
   * needs them runs its own timer. `newest`: of a larger bucket, lists at most this many records, those changed last.
   */
  watch(pattern: string, watcher: StateWatcher, newest?: number): Promise<{ close(): void }>;
}

export interface StateRecord {
  readonly key: string;
  readonly value: Buffer;
  /** Increases with every change in the bucket. */
  readonly revision: number;
}

/** Handlers neither block nor throw. */
export interface StateWatcher {
  put(record: StateRecord): void;
  gone(key: string, revision: number): void;
  /** The initial listing begins, for the first time or after an outage. */
  onBegin?(): void;
  /** The initial listing of this incarnation is complete. `complete` is false if it omitted older records. */
  onReady?(incarnation: string, complete: boolean): void;
}
