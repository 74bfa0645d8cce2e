/**
 * Port: small records that all nodes see, with a revision each, so that of several who change one of them at once only one
 * succeeds. Leases and session records are kept in it. Not for truth that must survive a power cut: that is SQL.
 * `shared-state.contract.ts` holds for every implementation.
 */
export interface SharedState {
  /** Opens a bucket, made on first use. The settings of one that exists are brought in line with these. */
  bucket(name: string, options: BucketOptions): Promise<Bucket>;
}

export interface BucketOptions {
  /** A record that was not written for this long is gone. 0: it stays. All records of a bucket have the same. */
  readonly ttlMs: number;
  /** Longest value. Default 64 KiB. */
  readonly maxValueBytes?: number;
}

/**
 * Keys are words of `[A-Za-z0-9_=-]` with dots between them. Every operation rejects with GatewayError NOT_SENT when it
 * certainly has not happened, UNKNOWN when that is not known (no answer, lost connection): then read again.
 */
export interface Bucket {
  readonly name: string;
  /**
   * Which making of the bucket this is; it changes when the bucket was lost and made anew, with revisions that may begin
   * again. A fencing token is this and a revision together.
   */
  readonly incarnation: string;
  get(key: string): Promise<StateRecord | null>;
  /**
   * As `get`, but `deleted` where it was deleted and that is still kept. Null then: there never was such a record, or
   * it ran out of time, or the store has lost it.
   */
  look(key: string): Promise<StateRecord | 'deleted' | null>;
  /** The revision, or null when there is such a record already. */
  create(key: string, value: Buffer): Promise<number | null>;
  /**
   * Writes a record that the store has lost: as `create`, but never where it was deleted and that is still kept. Null
   * there, and where there is such a record.
   */
  restore(key: string, value: Buffer): Promise<number | null>;
  /** The new revision, or null when the record has another revision by now, or is gone. */
  update(key: string, value: Buffer, revision: number): Promise<number | null>;
  /**
   * False when the record has another revision by now. Without a revision: whatever it is, and also where there is none. It is
   * kept that it was deleted, for as long as records are; where those stay, with the revision that `gone` had,
   * it is not kept any more. False when there is a new record by then, or nothing was kept.
   */
  delete(key: string, revision?: number): Promise<boolean>;
  /** Keys that match a pattern (`*`, `>`) and are not gone. */
  keys(pattern?: string): Promise<readonly string[]>;
  /**
   * `onBegin`, then everything there is that matches, as `put`s, and what is kept of deleted ones, as `gone`s, then
   * `onReady`, then changes in order; of several changes of one record in quick succession perhaps only the last. After an
   * outage it begins anew, with `onBegin`: what is not put before `onReady` is not there any more. Not every implementation
   * reports records that ran out of time: a user that needs to know, watches the time.
   */
  watch(pattern: string, watcher: StateWatcher): Promise<{ close(): void }>;
}

export interface StateRecord {
  readonly key: string;
  readonly value: Buffer;
  /** Grows with every change of any record of the bucket. */
  readonly revision: number;
}

/** Handlers neither block nor throw. */
export interface StateWatcher {
  put(record: StateRecord): void;
  gone(key: string, revision: number): void;
  /** Everything there is comes now, for the first time or again. */
  onBegin?(): void;
  /** Everything that there was has been listed. `incarnation`: of which making of the bucket that was. */
  onReady?(incarnation: string): void;
}
