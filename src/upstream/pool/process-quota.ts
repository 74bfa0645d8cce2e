import type { NodeLimits } from './node-limits.ts';

/** One server's share of the node's processes, and what of it could be given up. */
export interface Yielding {
  /** Since when its longest unused connection that may be ended was not used (monotonic); null where there is none. */
  unusedSince(): number | null;
  /** Ends that connection. */
  yieldOne(): void;
}

/** Child processes of this node, counted over all servers, against the operator's limit. */
export class ProcessQuota {
  readonly #limits: NodeLimits;
  readonly #pools = new Set<Yielding>();
  #taken = 0;

  constructor(limits: NodeLimits) {
    this.#limits = limits;
  }

  get max(): number {
    return this.#limits.maxProcesses;
  }

  get full(): boolean {
    return this.#taken >= this.#limits.maxProcesses;
  }

  take(pool: Yielding): void {
    this.#taken++;
    this.#pools.add(pool);
  }

  release(): void {
    this.#taken--;
  }

  /** The pool has ended. */
  leave(pool: Yielding): void {
    this.#pools.delete(pool);
  }

  /** Ends what was not used for longest, whichever server's it is; nothing if all is in use. */
  makeRoom(): void {
    let oldest: Yielding | null = null;
    let since = Number.POSITIVE_INFINITY;
    for (const pool of this.#pools) {
      const unused = pool.unusedSince();
      if (unused === null || unused >= since) continue;
      oldest = pool;
      since = unused;
    }
    oldest?.yieldOne();
  }
}
