import type { ClusterDeps } from '../cluster-deps.ts';
import { FORGETS } from '../frames/frame.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import { leaseKey, type NodeLease } from '../lease/node-lease.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { raiseFloor, readClaim } from './claim-record.ts';

const EVERY_MS = 10 * 60_000;
/** A claim without an owner for so long is not wanted any more. */
const KEEP_MS = 60 * 60_000;
/** Claims looked at in one run; the next one goes on behind them. */
const MAX_LOOKED_AT = 5_000;
/** Claims that are remembered to have no owner; others wait for their turn. */
const MAX_REMEMBERED = 50_000;
/** Marks of deleted claims that are forgotten in one run, and at once; the oldest first. */
const MAX_MARKS = 20_000;
const MARKS_AT_ONCE = 16;

/** A claim, or what is kept of a deleted one. */
interface Revised {
  readonly key: string;
  readonly revision: number;
}

/** What the bucket lists. */
interface Look {
  readonly keys: string[];
  /** Old enough to be forgotten; some of them, where there are many. */
  readonly marks: Revised[];
  /** Of all that was listed. */
  highest: number;
}

/**
 * Forgets claims without an owner for an hour: freed, or those of nodes that are gone. Each is deleted at the revision at
 * which it had no owner all the time, so that a node that takes it meanwhile keeps it. What is forgotten does not say any
 * more that it was ever owned; the floor, which rises before, says up to where that may be so.
 *
 * The bucket keeps of each deleted claim that there was one, for those who watch or compare revisions at that moment. What
 * is an hour old is not needed, and is forgotten too.
 */
export class ClaimSweep {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'logger'>;
  readonly #claims: LazyBucket;
  readonly #leases: LazyBucket;
  readonly #lease: Pick<NodeLease, 'held'>;
  readonly #nodes: Pick<Nodes, 'first'>;
  readonly #idle = new Map<string, { readonly revision: number; readonly since: number }>();
  /** What the highest revision was, and when: what has none above it is at least so old. The oldest first. */
  #seen: { readonly revision: number; readonly at: number }[] = [];
  #incarnation = '';
  #after = '';
  #endLook: (() => void) | null = null;
  #stop: (() => void) | null = null;
  #closed = false;

  constructor(
    deps: Pick<ClusterDeps, 'clock' | 'logger'>,
    claims: LazyBucket,
    leases: LazyBucket,
    lease: Pick<NodeLease, 'held'>,
    nodes: Pick<Nodes, 'first'>,
  ) {
    this.#deps = deps;
    this.#claims = claims;
    this.#leases = leases;
    this.#lease = lease;
    this.#nodes = nodes;
  }

  start(): void {
    if (this.#closed) return;
    // The lease may have come back while the one before was waited for.
    this.#stop?.();
    this.#stop = this.#deps.clock.after(EVERY_MS, () => {
      const { logger } = this.#deps;
      const failed = (error: unknown): void => logger.debug('claims_not_swept', { error: String(error) });
      void this.run()
        .catch(failed)
        .then(() => this.start());
    });
  }

  /** Once, now. How many were forgotten. Rejects while the store does not answer. */
  async run(): Promise<number> {
    if (!this.#due) {
      this.#idle.clear();
      this.#seen = [];
      return 0;
    }
    const alive = new Set(await this.#leases.keys('lease.*'));
    const { keys, marks } = await this.#look();
    const forgotten = await this.#forgetClaims(this.#next(keys), alive);
    await this.#forgetMarks(marks);
    return forgotten;
  }

  close(): void {
    this.#closed = true;
    this.#stop?.();
    this.#endLook?.();
  }

  /** One node sweeps, and only where all of them heed what was forgotten. */
  get #due(): boolean {
    return this.#lease.held && this.#nodes.first(FORGETS);
  }

  async #forgetClaims(keys: readonly string[], alive: ReadonlySet<string>): Promise<number> {
    const claims = this.#claims;
    const old: Revised[] = [];
    for (const key of keys) {
      const record = await claims.get(key);
      const peer = record === null ? '' : readClaim(record).peer;
      if (record === null || (peer !== '' && alive.has(leaseKey(peer)))) this.#idle.delete(key);
      else if (this.#idleForLong(key, record.revision)) old.push({ key, revision: record.revision });
    }
    if (old.length === 0 || this.#closed) return 0;
    await raiseFloor(claims, Math.max(...old.map(({ revision }) => revision)));
    let forgotten = 0;
    for (const { key, revision } of old) {
      this.#idle.delete(key);
      if (await claims.delete(key, revision)) forgotten++;
    }
    this.#deps.logger.info('claims_forgotten', { claims: forgotten });
    return forgotten;
  }

  async #forgetMarks(marks: readonly Revised[]): Promise<void> {
    let forgotten = 0;
    for (let at = 0; at < marks.length && this.#due && !this.#closed; at += MARKS_AT_ONCE) {
      const some = marks.slice(at, at + MARKS_AT_ONCE);
      const deleted = await Promise.all(some.map(({ key, revision }) => this.#claims.delete(key, revision)));
      forgotten += deleted.filter((was) => was).length;
    }
    const { logger } = this.#deps;
    if (marks.length > 0) logger.debug('claim_marks_forgotten', { marks: forgotten, more: marks.length === MAX_MARKS });
  }

  /** Claims and what is kept of deleted ones, listed at once. */
  async #look(): Promise<Look> {
    const oldUpTo = this.#oldUpTo();
    let look = nothing();
    const changed = ({ key, revision }: Revised, gone: boolean): void => {
      look.highest = Math.max(look.highest, revision);
      if (!gone) look.keys.push(key);
      else if (revision <= oldUpTo && look.marks.length < MAX_MARKS) look.marks.push({ key, revision });
    };
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#endLook = () => resolve('');
    const watch = await this.#claims.watch('own.*', {
      onBegin: () => {
        look = nothing();
      },
      put: (record) => changed(record, false),
      gone: (key, revision) => changed({ key, revision }, true),
      onReady: resolve,
    });
    const incarnation = await promise.finally(() => watch.close());
    if (this.#closed) return nothing();
    const other = incarnation !== this.#incarnation;
    this.#incarnation = incarnation;
    // Revisions of a store that was made anew say nothing about the age of what is in this one.
    if (other) this.#seen = [];
    this.#seen.push({ revision: look.highest, at: this.#deps.clock.now() });
    // The last one says up to where the revisions have come, which they are to follow on.
    return { ...look, marks: other ? [] : look.marks.filter(({ revision }) => revision < look.highest) };
  }

  /** Whatever has this revision or a lower one has had it for an hour. */
  #oldUpTo(): number {
    const old = ({ at }: { readonly at: number }): boolean => this.#deps.clock.now() - at >= KEEP_MS;
    const upTo = this.#seen.findLast(old);
    this.#seen = this.#seen.filter((seen) => seen === upTo || !old(seen));
    return upTo?.revision ?? 0;
  }

  #next(unsorted: readonly string[]): readonly string[] {
    const all = [...new Set(unsorted)].sort();
    const there = new Set(all);
    for (const key of this.#idle.keys()) if (!there.has(key)) this.#idle.delete(key);
    const rest = all.filter((key) => key > this.#after);
    const keys = (rest.length > 0 ? rest : all).slice(0, MAX_LOOKED_AT);
    this.#after = keys.at(-1) ?? '';
    return keys;
  }

  #idleForLong(key: string, revision: number): boolean {
    const now = this.#deps.clock.now();
    const known = this.#idle.get(key);
    if (known?.revision === revision) return now - known.since >= KEEP_MS;
    if (known !== undefined || this.#idle.size < MAX_REMEMBERED) this.#idle.set(key, { revision, since: now });
    return false;
  }
}

function nothing(): Look {
  return { keys: [], marks: [], highest: 0 };
}
