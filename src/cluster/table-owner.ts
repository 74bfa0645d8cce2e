import type { StateRecord } from '../bus/shared-state.ts';

export interface TableSettings {
  readonly bucket: string;
  readonly ttlMs: number;
  readonly maxValueBytes?: number;
  /** Limit of waiting writes during an outage; beyond it the oldest is not written. */
  readonly maxWaiting?: number;
  /** Of a larger bucket, about as many records that were changed last are listed. The owner may `drop` records then. */
  readonly newest?: number;
  /** Keys of records that the owner had before: they are compared with the bucket. */
  readonly known?: readonly string[];
  /** `merged` concerns only what another node may have written since this one last received or wrote the record. */
  readonly mergesUnread?: boolean;
  /** A deleted key may be put again. Otherwise a deletion is final, also of a record that this node never received. */
  readonly reusesKeys?: boolean;
}

export interface TableOwner {
  /**
   * Written here or at another node. `again`: known before an outage and received again; it may have been lost and written again
   * by a node that knew less.
   */
  heard(record: StateRecord, again: boolean): void;
  gone(key: string): void;
  /** All records were listed, for the first time or again. */
  heardAll?(): void;
  /** Not listed after an outage: what to write again; null: forgotten. `lost` false: perhaps it is older than what is listed. */
  recall(key: string, lost: boolean): Buffer | null;
  /** Merges this node's value with the stored one. */
  merged?(key: string, value: Buffer, there: Buffer): Buffer;
}
