import type { StateRecord } from '../bus/shared-state.ts';

/** A change that waits to be written. */
export interface WaitingChange {
  /** Null deletes the record. */
  readonly value: Buffer | null;
  /** The revision that this node had received by then, and the incarnation of the bucket. */
  readonly known: number | undefined;
  readonly incarnation: string;
}

/** A change received while this node writes the record; `record` is null for a deletion. */
export interface LateChange {
  readonly revision: number;
  readonly record: StateRecord | null;
}
