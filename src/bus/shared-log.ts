/**
 * Port: what nodes append under a name, for some minutes, and any node reads. Bounded in all and per name: what is oldest
 * falls out first. `shared-log.contract.ts` holds for every implementation.
 *
 * Names are words of `[A-Za-z0-9_=-]` with dots between them.
 */
export interface SharedLog {
  /** Longest entry. */
  readonly maxEntryBytes: number;
  /**
   * Never blocks and never throws. False: it was not appended, because there is no connection, or more is on its way
   * already than the store keeps up with. True is no promise.
   */
  append(name: string, entry: Buffer): boolean;
  /**
   * Appends where nothing was appended after this position (0: at all); false where something was. Rejects with
   * GatewayError NOT_SENT or UNKNOWN.
   */
  appendAfter(name: string, entry: Buffer, position: number): Promise<boolean>;
  /** What there still is, in order. Rejects with GatewayError NOT_SENT when it cannot be read. */
  read(name: string): Promise<LogReading>;
  close(): void;
}

export interface LogReading {
  readonly entries: readonly Buffer[];
  /** Of the last entry; 0 without any. Grows. */
  readonly position: number;
}
