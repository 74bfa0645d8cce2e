import { AsyncResource } from 'node:async_hooks';
import type { Clock } from '../../model/clock.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { NodeLimits } from '../server-context.ts';
import type { Unused } from './slot.ts';

/** One server's share of the node's processes, and what of it could be given up. */
export interface QuotaPool {
  /** Its connection that is ended first where another needs room; null where none may be. */
  longestUnused(): Unused | null;
  /** Ends that connection; false where there is none. */
  yieldOne(): boolean;
}

/** A call waits no longer than this for room, and no longer than half of the time that it has left. */
const WAIT_MS = 2_000;
/** While calls wait, the quota looks so often for a process that has become idle: what makes one idle has many places. */
const LOOK_MS = 10;

interface RoomWaiter {
  readonly attempt: Attempt;
  /** Takes a place, if need be by ending an idle process; false where there is none. */
  readonly take: () => boolean;
  /** Monotonic. */
  readonly until: number;
  readonly taken: PromiseWithResolvers<boolean>;
}

/** Child processes of this node, counted over all servers, against the operator's limit. */
export class ProcessQuota {
  readonly #limits: NodeLimits;
  readonly #pools = new Set<QuotaPool>();
  readonly #clock: Clock;
  /** In the order in which they came. */
  readonly #waiters = new Set<RoomWaiter>();
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

  /** The pool has ended. */
  leave(pool: QuotaPool): void {
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

  /** Takes a place, after earlier waiters; for a call, waits until a process is idle. False: there is no place. */
  place(attempt: Attempt, take: () => boolean): boolean | Promise<boolean> {
    this.#serve();
    if (take()) return true;
    const calls = [...attempt.calls].filter(({ done }) => !done);
    if (calls.length === 0) return false;
    const waitMs = Math.min(WAIT_MS, ...calls.map(({ leftMs }) => leftMs / 2));
    const taken = Promise.withResolvers<boolean>();
    // A defect in the work for one server is not to become another's, whose call happens to look.
    const waiter = { attempt, take: AsyncResource.bind(take), until: this.#clock.now() + waitMs, taken };
    this.#waiters.add(waiter);
    attempt.undoBy(() => this.#end(waiter, false));
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
    // What ends for one of them may make another ask.
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

  #end(waiter: RoomWaiter, taken: boolean): void {
    this.#waiters.delete(waiter);
    waiter.attempt.undoBy(null);
    waiter.taken.resolve(taken);
    if (this.#waiters.size > 0) return;
    this.#disarm?.();
    this.#disarm = null;
  }

  #first(): QuotaPool | null {
    let first: QuotaPool | null = null;
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
