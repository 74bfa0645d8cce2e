import type { StateRecord } from '../bus/shared-state.ts';

export interface TableSettings {
  readonly bucket: string;
  readonly ttlMs: number;
  readonly maxValueBytes?: number;
  /** Limit of pending writes during an outage; beyond it the oldest is dropped. */
  readonly maxWaiting?: number;
  /** Of a larger bucket, only about this many records, those changed last, are listed. The owner may then `drop` records. */
  readonly newest?: number;
  /** Keys of records that the owner already has; the first listing is compared with them. */
  readonly known?: readonly string[];
  /** Calls `merged` only if another node has written since this node last received or wrote the record. */
  readonly mergesUnread?: boolean;
  /** A deleted key may be put again. Otherwise a deletion is final, even of a record that this node never received. */
  readonly reusesKeys?: boolean;
}

export interface TableOwner {
  /**
   * A record was received, written by any node. `again`: it was known before an outage; it may have been lost, and restored by a
   * node with an older value.
   */
  received(record: StateRecord, again: boolean): void;
  gone(key: string): void;
  /** A listing has ended, the first or a later one. `lost`: known records that the store has no more. */
  listingEnded?(lost: number): void;
  /** The value to write again for a record that was not listed; null forgets it. `lost` false: it may be too old for the list. */
  recall(key: string, lost: boolean): Buffer | null;
  /** Merges this node's value with the stored one. */
  merged?(key: string, value: Buffer, there: Buffer): Buffer;
  /** Whether this node wrote the record. Tables that reuse keys need it. */
  owns?(record: StateRecord): boolean;
}
