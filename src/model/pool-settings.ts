/** When connections of session pools end by themselves (S1.5). Shared by all servers of a node. */
export interface PoolSettings {
  /** A connection of one session or principal that was not used for so long is closed. */
  readonly idleTimeoutMs: number;
  /** At the limit of processes one that was not used for at least so long is ended for another, unless its client is gone. */
  readonly sleepAfterMs: number;
  /** How often connections to close are looked for. */
  readonly sweepMs: number;
  /** Requests in a row that failed, after which a connection is replaced. */
  readonly maxErrors: number;
}

/** S1.1 */
export const POOL_DEFAULTS: PoolSettings = {
  idleTimeoutMs: 30 * 60_000,
  sleepAfterMs: 0,
  sweepMs: 5 * 60_000,
  maxErrors: 10,
};
