import type { PoolSettings } from '../../model/pool-settings.ts';

/** Limits of this node that the operator may change while it runs. */
export interface NodeLimits {
  /** Child processes at once, over all servers. */
  maxProcesses: number;
  /** Upper bound of a call that keeps reporting progress. */
  maxTimeoutMs: number;
  pool: PoolSettings;
}
