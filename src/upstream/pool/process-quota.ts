import type { Unused } from './longest-unused.ts';
import type { NodeLimits } from './node-limits.ts';

/** One server's share of the node's processes, and what of it could be given up. */
export interface Yielding {
  /** Its connection that is ended first where another needs room; null where none may be. */
  longestUnused(): Unused | null;
  /** Ends that connection; false where there is none. */
  yieldOne(): boolean;
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

  get taken(): number {
    return this.#taken;
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

  /** Whether some server has a process that would give way. */
  get yields(): boolean {
    return this.#first() !== null;
  }

  /** Ends what was not used for longest, whichever server's it is; false if all is in use. */
  makeRoom(): boolean {
    return this.#first()?.yieldOne() ?? false;
  }

  #first(): Yielding | null {
    let first: Yielding | null = null;
    let best: Unused | null = null;
    for (const pool of this.#pools) {
      const unused = pool.longestUnused();
      if (unused === null) continue;
      const better =
        best === null || unused.rank < best.rank || (unused.rank === best.rank && unused.usedAt < best.usedAt);
      if (!better) continue;
      first = pool;
      best = unused;
    }
    return first;
  }
}
