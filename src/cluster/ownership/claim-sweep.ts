import { FORGETS } from '../frames/frame.ts';
import { leaseKey } from '../nodes/lease-record.ts';
import { type ClaimContext, raiseFloor, readClaim } from './claim-record.ts';

const EVERY_MS = 10 * 60_000;
const KEEP_MS = 60 * 60_000;
const MAX_LOOKED_AT = 5_000;
const MAX_REMEMBERED = 50_000;
const MAX_MARKS = 20_000;
const MARKS_AT_ONCE = 16;

interface Revised {
  readonly key: string;
  readonly revision: number;
}

interface ListedClaims {
  readonly keys: string[];
  /** Some of the old ones. */
  readonly marks: Revised[];
  highest: number;
}

/**
 * Forgets claims without an owner for an hour: freed, or those of nodes that are gone. Each is deleted at the revision at
 * which it had no owner all the time, so that a node that takes it meanwhile keeps it. What is forgotten does not say any
 * more that it was ever owned; the floor, which rises before, says up to where that may be so.
 *
 * The bucket keeps of each deleted claim that there was one, for nodes that watch or compare revisions at that moment. What
 * is an hour old is not needed, and is forgotten too.
 */
export class ClaimSweep {
  readonly #context: ClaimContext;
  readonly #idle = new Map<string, { readonly revision: number; readonly since: number }>();
  /** Highest revisions and when they were seen, oldest first: dates older records. */
  #seen: { readonly revision: number; readonly at: number }[] = [];
  #incarnation = '';
  #after = '';
  #stop: () => void = () => {};

  constructor(context: ClaimContext) {
    this.#context = context;
  }

  start(): void {
    this.#stop();
    this.#stop = this.#context.deps.clock.after(EVERY_MS, () => {
      const { logger } = this.#context.deps;
      const failed = (error: unknown): void => logger.debug('claims_not_swept', { error: String(error) });
      void this.run()
        .catch(failed)
        .then(() => this.start());
    });
  }

  /** Returns how many were deleted. Rejects if the store does not answer. */
  async run(): Promise<number> {
    if (!this.#due) {
      this.#idle.clear();
      this.#seen = [];
      return 0;
    }
    const alive = new Set(await this.#context.leases.keys('lease.*'));
    const { keys, marks } = await this.#look();
    const forgotten = await this.#forgetClaims(this.#next(keys), alive);
    await this.#forgetMarks(marks);
    return forgotten;
  }

  /** One node sweeps, and only if all respect the floor. */
  get #due(): boolean {
    return this.#context.lease.held && this.#context.nodes.first(FORGETS);
  }

  async #forgetClaims(keys: readonly string[], alive: ReadonlySet<string>): Promise<number> {
    const claims = this.#context.store;
    const old: Revised[] = [];
    for (const key of keys) {
      const record = await claims.get(key);
      const peer = record === null ? '' : readClaim(record).peer;
      if (record === null || (peer !== '' && alive.has(leaseKey(peer)))) this.#idle.delete(key);
      else if (this.#idleForLong(key, record.revision)) old.push({ key, revision: record.revision });
    }
    if (old.length === 0) return 0;
    await raiseFloor(claims, Math.max(...old.map(({ revision }) => revision)));
    let forgotten = 0;
    for (const { key, revision } of old) {
      this.#idle.delete(key);
      if (await claims.delete(key, revision)) forgotten++;
    }
    this.#context.deps.logger.info('claims_forgotten', { claims: forgotten });
    return forgotten;
  }

  async #forgetMarks(marks: readonly Revised[]): Promise<void> {
    let forgotten = 0;
    for (let at = 0; at < marks.length && this.#due; at += MARKS_AT_ONCE) {
      const some = marks.slice(at, at + MARKS_AT_ONCE);
      const deleted = await Promise.all(some.map(({ key, revision }) => this.#context.store.delete(key, revision)));
      forgotten += deleted.filter((was) => was).length;
    }
    const { logger } = this.#context.deps;
    if (marks.length > 0) logger.debug('claim_marks_forgotten', { marks: forgotten, more: marks.length === MAX_MARKS });
  }

  async #look(): Promise<ListedClaims> {
    const oldUpTo = this.#oldUpTo();
    let look = nothing();
    const changed = ({ key, revision }: Revised, gone: boolean): void => {
      look.highest = Math.max(look.highest, revision);
      if (!gone) look.keys.push(key);
      else if (revision <= oldUpTo && look.marks.length < MAX_MARKS) look.marks.push({ key, revision });
    };
    const { promise, resolve } = Promise.withResolvers<string>();
    const watch = await this.#context.store.watch('own.*', {
      onBegin: () => {
        look = nothing();
      },
      put: (record) => changed(record, false),
      gone: (key, revision) => changed({ key, revision }, true),
      onReady: resolve,
    });
    const incarnation = await promise.finally(() => watch.close());
    const other = incarnation !== this.#incarnation;
    this.#incarnation = incarnation;
    // Revisions of another incarnation do not date these.
    if (other) this.#seen = [];
    this.#seen.push({ revision: look.highest, at: this.#context.deps.clock.now() });
    // The last mark is kept: its revision is the one that later records follow.
    return { ...look, marks: other ? [] : look.marks.filter(({ revision }) => revision < look.highest) };
  }

  #oldUpTo(): number {
    const old = ({ at }: { readonly at: number }): boolean => this.#context.deps.clock.now() - at >= KEEP_MS;
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
    const now = this.#context.deps.clock.now();
    const known = this.#idle.get(key);
    if (known?.revision === revision) return now - known.since >= KEEP_MS;
    if (known !== undefined || this.#idle.size < MAX_REMEMBERED) this.#idle.set(key, { revision, since: now });
    return false;
  }
}

function nothing(): ListedClaims {
  return { keys: [], marks: [], highest: 0 };
}
