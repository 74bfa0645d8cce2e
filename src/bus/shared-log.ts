/**
 * Port: named append-only logs, kept for some minutes, that any node reads. Limits on the total, per name, and for all names with
 * the same first word evict the oldest entries first. `shared-log.contract.ts` covers every implementation.
 * Names are two words or more of `[A-Za-z0-9_=-]` separated by dots.
 */
export interface SharedLog {
  readonly maxEntryBytes: number;
  /**
   * Never blocks or throws. Returns false if it drops the entry: too large, no connection, or more than the store keeps up with,
   * in total or under the first word of the name. True does not guarantee storage.
   */
  append(name: string, entry: Buffer): boolean;
  /** Returns false unless the last entry is at `position` (0: no entry). Rejects with GatewayError NOT_SENT or UNKNOWN. */
  appendAfter(name: string, entry: Buffer, position: number): Promise<boolean>;
  /** Returns the entries in order. Rejects with GatewayError NOT_SENT. */
  read(name: string): Promise<LogReading>;
  close(): void;
}

export interface LogReading {
  readonly entries: readonly Buffer[];
  /** Position of the last entry, which increases; 0 if there is none. */
  readonly position: number;
}

/** The first word of a name. */
export function groupOf(name: string): string {
  return name.split('.', 1)[0]!;
}
