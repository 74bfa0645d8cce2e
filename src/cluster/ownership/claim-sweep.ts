import type { StateRecord } from '../../bus/shared-state.ts';
import { every } from '../../model/clock.ts';
import { CLAIM_FLOOR_PROTOCOL } from '../frames/frame.ts';
import { leaseKey } from '../nodes/lease-record.ts';
import { type ClaimContext, raiseFloor, readClaim } from './claim-record.ts';

const EVERY_MS = 10 * 60_000;
const KEEP_MS = 60 * 60_000;
const MAX_LOOKED_AT = 5_000;
const MAX_REMEMBERED = 50_000;

/**
 * Deletes claims that had no live owner for an hour: freed claims, and claims of nodes that are gone. It deletes each record at
 * the revision that had no owner all that time, so a node that takes the claim meanwhile keeps it. A deleted record no longer
 * shows that the claim had an owner; therefore the sweep first raises the floor, the highest revision that may be deleted.
 *
 * It also removes deletion markers (tombstones) that are older than an hour.
 */
export class ClaimSweep {
  readonly #context: ClaimContext;
  readonly #idle = new Map<string, { readonly revision: number; readonly since: number }>();
  #after = '';
  #stop: () => void = () => {};

  constructor(context: ClaimContext) {
    this.#context = context;
  }

  start(): void {
    const { clock, logger } = this.#context.deps;
    const failed = (error: unknown): void => logger.debug('claims_not_swept', { error: String(error) });
    this.#stop();
    this.#stop = every(clock, EVERY_MS, () => this.run().catch(failed));
  }

  /** Returns the number of deleted claims. Rejects if the store does not answer. */
  async run(): Promise<number> {
    if (!this.#due) {
      this.#idle.clear();
      return 0;
    }
    const { deps, store, leases } = this.#context;
    const alive = new Set(await leases.keys('lease.*'));
    const forgotten = await this.#forgetClaims(this.#next(await store.keys('own.*')), alive);
    const marks = await store.purgeTombstones(KEEP_MS);
    if (marks > 0) deps.logger.debug('claim_marks_forgotten', { marks });
    return forgotten;
  }

  /** Only one node sweeps, and only if all nodes respect the floor. */
  get #due(): boolean {
    return this.#context.lease.held && this.#context.nodes.first(CLAIM_FLOOR_PROTOCOL);
  }

  async #forgetClaims(keys: readonly string[], alive: ReadonlySet<string>): Promise<number> {
    const claims = this.#context.store;
    const old: Pick<StateRecord, 'key' | 'revision'>[] = [];
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
