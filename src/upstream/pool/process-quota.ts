import { AsyncResource } from 'node:async_hooks';
import type { Clock } from '../../model/clock.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { NodeLimits } from '../server-context.ts';
import type { EvictionCandidate } from './slot.ts';

/** One server's part of the node's processes. */
export interface QuotaPool {
  /** The connection to close first when another one needs room; null if none may be closed. */
  longestUnused(): EvictionCandidate | null;
  /** Closes that connection; false if there is none. */
  evictOne(): boolean;
}

/** Longest wait of a call for room; a call waits at most half of its remaining time. */
const WAIT_MS = 2_000;
/** Poll interval for idle processes while calls wait; a process can become idle in many places of the code. */
const LOOK_MS = 10;

interface QuotaWaiter {
  readonly attempt: Attempt;
  /** Takes a place, if needed by ending an idle process; false if that is impossible. */
  readonly take: () => boolean;
  /** Monotonic time. */
  readonly until: number;
  readonly taken: PromiseWithResolvers<boolean>;
}

/** Counts the child processes of all servers of this node against the operator's limit. */
export class ProcessQuota {
  readonly #limits: NodeLimits;
  readonly #pools = new Set<QuotaPool>();
  readonly #clock: Clock;
  /** In order of arrival. */
  readonly #waiters = new Set<QuotaWaiter>();
  #serving = false;
  #disarm: (() => void) | null = null;
  taken = 0;

  constructor(limits: NodeLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  get full(): boolean {
    return this.taken >= this.#limits.maxProcesses;
  }

  take(pool: QuotaPool): void {
    this.taken++;
    this.#pools.add(pool);
  }

  release(): void {
    this.taken--;
  }

  /** The pool was closed. */
  leave(pool: QuotaPool): void {
    this.#pools.delete(pool);
  }

  /** Whether any server has a process that can be ended for another. */
  get canEvict(): boolean {
    return this.#first() !== null;
  }

  /** Ends the process that was unused for longest, of whichever server; false if all are in use. */
  evictOne(): boolean {
    return this.#first()?.evictOne() ?? false;
  }

  /** Takes a place, after earlier waiters; if a call waits for it, waits until a process is idle. False: there is no place. */
  place(attempt: Attempt, take: () => boolean): boolean | Promise<boolean> {
    this.#serve();
    if (take()) return true;
    const calls = [...attempt.calls].filter(({ done }) => !done);
    if (calls.length === 0) return false;
    const waitMs = Math.min(WAIT_MS, ...calls.map(({ leftMs }) => leftMs / 2));
    const taken = Promise.withResolvers<boolean>();
    // `take` runs in its own server's error boundary, whichever server's call triggers it.
    const waiter = { attempt, take: AsyncResource.bind(take), until: this.#clock.now() + waitMs, taken };
    this.#waiters.add(waiter);
    attempt.setUndo(() => this.#end(waiter, false));
    this.#look();
    return taken.promise;
  }

  #look(): void {
    this.#disarm ??= this.#clock.after(LOOK_MS, () => {
      this.#disarm = null;
      this.#serve();
      if (this.#waiters.size > 0) this.#look();
    });
  }

  #serve(): void {
    // Ending a process for one waiter may call this again.
    if (this.#serving) return;
    this.#serving = true;
    for (const waiter of this.#waiters) {
      const { attempt, take, until, taken } = waiter;
      try {
        if (attempt.calls.values().every(({ done }) => done)) this.#end(waiter, false);
        else if (take()) this.#end(waiter, true);
        else if (this.#clock.now() >= until) this.#end(waiter, false);
      } catch (error) {
        taken.reject(error);
        this.#end(waiter, false);
      }
    }
    this.#serving = false;
  }

  #end(waiter: QuotaWaiter, taken: boolean): void {
    this.#waiters.delete(waiter);
    waiter.attempt.setUndo(null);
    waiter.taken.resolve(taken);
    if (this.#waiters.size > 0) return;
    this.#disarm?.();
    this.#disarm = null;
  }

  #first(): QuotaPool | null {
    let first: QuotaPool | null = null;
    let best: EvictionCandidate | null = null;
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
