/**
 * Port: what nodes append under a name, for some minutes, and any node reads. Bounded in all, per name, and for all names with
 * the same first word: what is oldest there falls out first. `shared-log.contract.ts` holds for every implementation.
 *
 * Names are two words or more of `[A-Za-z0-9_=-]` with dots between them.
 */
export interface SharedLog {
  readonly maxEntryBytes: number;
  /** Never blocks or throws. False: dropped, without a connection or beyond what the store keeps up with, in all or under the first word. True is no promise. */
  append(name: string, entry: Buffer): boolean;
  /**
   * Appends if nothing was appended after this position (0: at all); else false. Rejects with GatewayError NOT_SENT or UNKNOWN.
   */
  appendAfter(name: string, entry: Buffer, position: number): Promise<boolean>;
  /** In order. Rejects with GatewayError NOT_SENT. */
  read(name: string): Promise<LogReading>;
  close(): void;
}

export interface LogReading {
  readonly entries: readonly Buffer[];
  /** Of the last entry; 0: none. Grows. */
  readonly position: number;
}
