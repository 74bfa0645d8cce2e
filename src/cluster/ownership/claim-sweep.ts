import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import { leaseKey } from '../lease/node-lease.ts';
import { raiseFloor } from './claim-floor.ts';
import { readClaim } from './claim-record.ts';

const EVERY_MS = 10 * 60_000;
/** A claim that was nobody's for so long is not wanted any more. */
const KEEP_MS = 60 * 60_000;
/** Claims looked at in one run; the next one goes on behind them. */
const MAX_LOOKED_AT = 5_000;
/** Claims that are remembered to be nobody's; others wait for their turn. */
const MAX_REMEMBERED = 50_000;

export interface ClaimSweepDeps {
  readonly claims: LazyBucket;
  readonly leases: LazyBucket;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether it is for this node to do, and every node knows of what is forgotten. */
  readonly due: () => boolean;
}

/**
 * Forgets claims that were nobody's for an hour: freed, or those of nodes that are gone. Each is deleted at the revision at
 * which it was nobody's all the time, so that whoever takes it meanwhile keeps it. What is forgotten does not say any
 * more that it was ever owned; the floor, which rises before, says up to where that may be so.
 */
export class ClaimSweep {
  readonly #deps: ClaimSweepDeps;
  readonly #idle = new Map<string, { readonly revision: number; readonly since: number }>();
  #after = '';
  #stop: (() => void) | null = null;
  #closed = false;

  constructor(deps: ClaimSweepDeps) {
    this.#deps = deps;
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
    const { claims, leases, due, logger } = this.#deps;
    if (!due()) {
      this.#idle.clear();
      return 0;
    }
    const alive = new Set(await leases.keys('lease.*'));
    const keys = await this.#nextKeys();
    const old: { readonly key: string; readonly revision: number }[] = [];
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
    logger.info('claims_forgotten', { claims: forgotten });
    return forgotten;
  }

  close(): void {
    this.#closed = true;
    this.#stop?.();
  }

  async #nextKeys(): Promise<readonly string[]> {
    const all = [...(await this.#deps.claims.keys('own.*'))].sort();
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
