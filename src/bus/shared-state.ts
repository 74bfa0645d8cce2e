/**
 * Port: small records that all nodes see, with a revision each, so that of several who change one of them at once only one
 * succeeds. Leases and session records are kept in it. Not for truth that must survive a power cut: that is SQL.
 * `shared-state.contract.ts` holds for every implementation.
 */
export interface SharedState {
  /** At the first operation, and at one after a failure, it is created if needed, and its settings are updated. */
  bucket(name: string, options: BucketOptions): Bucket;
}

export interface BucketOptions {
  /** Records expire this long after the last write. 0: never. */
  readonly ttlMs: number;
  /** Default 64 KiB. */
  readonly maxValueBytes?: number;
}

/**
 * Keys are words of `[A-Za-z0-9_=-]` with dots between them. Operations reject with GatewayError NOT_SENT if they certainly did
 * not happen, UNKNOWN otherwise: then read again.
 */
export interface Bucket {
  readonly name: string;
  /**
   * Changes when the bucket was lost and created again; revisions may begin again. With a revision it is a fencing token; it has no
   * dot. As last seen; empty before.
   */
  readonly incarnation: string;
  /** Asks for it: another node may have created it again. */
  readIncarnation(): Promise<string>;
  get(key: string): Promise<StateRecord | null>;
  /** `deleted` while a marker is kept. Null: it never existed, expired, or was lost. */
  look(key: string): Promise<StateRecord | 'deleted' | null>;
  /** Null if it exists. */
  create(key: string, value: Buffer): Promise<number | null>;
  /** As `create`, for a lost record: null also while a marker of its deletion is kept. */
  restore(key: string, value: Buffer): Promise<number | null>;
  /** Null if the revision differs or the record is gone. */
  update(key: string, value: Buffer, revision: number): Promise<number | null>;
  /** False if the revision differs. Without a revision: unconditional. Leaves a marker for the TTL. */
  delete(key: string, revision?: number): Promise<boolean>;
  /**
   * Removes the markers that are older, for users that do not need them for the whole TTL; that of the newest change stays. Returns
   * how many.
   */
  forgetMarks(olderThanMs: number): Promise<number>;
  /** Matching keys (`*`, `>`) without deleted ones. */
  keys(pattern?: string): Promise<readonly string[]>;
  /**
   * `onBegin`, then everything there is that matches, as `put`s, and what is kept of deleted ones, as `gone`s, then
   * `onReady`, then changes in order; of several changes of one record in quick succession perhaps only the last. After an
   * outage it begins anew, with `onBegin`: what is not put before `onReady` is not there any more. Not every implementation
   * reports records that ran out of time: a user that needs to know, watches the time. `newest`: of a larger bucket, about as
   * many that were changed last are listed.
   */
  watch(pattern: string, watcher: StateWatcher, newest?: number): Promise<{ close(): void }>;
}

export interface StateRecord {
  readonly key: string;
  readonly value: Buffer;
  /** Grows with every change in the bucket. */
  readonly revision: number;
}

/** Handlers neither block nor throw. */
export interface StateWatcher {
  put(record: StateRecord): void;
  gone(key: string, revision: number): void;
  /** The listing begins, for the first time or again. */
  onBegin?(): void;
  /** The listing is over, of this incarnation; not `whole`: older records were left out. */
  onReady?(incarnation: string, whole: boolean): void;
}
