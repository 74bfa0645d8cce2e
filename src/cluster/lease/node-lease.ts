import { within } from '../../model/clock.ts';
import type { ClusterDeps, Regained, ThisNode } from '../cluster-deps.ts';
import type { LazyBucket } from '../lazy-bucket.ts';

export const LEASES = 'trunkline_leases';
/** TTL of the bucket: then other nodes may take what the lease covered. */
export const LEASE_MS = 2_500;
/** The holder stops this long after it sent the last acknowledged renewal. */
export const STOP_MS = 2_000;
export const RENEW_MS = 500;
const PATIENCE_MS = 1_000;
const WARN_MS = 5_000;

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'node' | 'onBusLoss' | 'identity'>;

/**
 * One lease for everything that a node owns. Its validity counts from when the last acknowledged renewal was sent, by the
 * monotonic clock, so that neither a slow network nor a pause makes the holder trust it longer than the store does.
 */
export class NodeLease {
  readonly #deps: Deps;
  readonly #store: LazyBucket;
  readonly #node: Pick<ThisNode, 'leaseOver' | 'leaseRegained'>;
  readonly #key: string;
  readonly #value: Buffer;
  /** 0 without an entry. */
  #revision = 0;
  #since = 0;
  /** Monotonic. */
  #until = Number.NEGATIVE_INFINITY;
  /** The store may have dropped the lease since `leaseRegained` ran. */
  #broken = true;
  #returningUntil = Number.NEGATIVE_INFINITY;
  #failure: string | null = null;
  #failedSince: number | null = null;
  #warned = false;
  /** `leaseRegained` has resolved. */
  #settled = false;
  #stopRenewing: () => void = () => {};
  #stopWatching: () => void = () => {};
  #closed = false;

  /** `store`: the bucket with TTL `LEASE_MS`. */
  constructor(deps: Deps, store: LazyBucket, node: Pick<ThisNode, 'leaseOver' | 'leaseRegained'>) {
    const { peer } = deps.bus;
    this.#deps = deps;
    this.#store = store;
    this.#node = node;
    this.#key = leaseKey(peer);
    this.#value = Buffer.from(JSON.stringify({ node: deps.node, peer }));
  }

  get held(): boolean {
    return this.#settled && (this.#deps.clock.now() < this.#until || this.#servesOn);
  }

  /** Why the cluster does not take this node, whatever others lack; null if it does. */
  get refused(): string | null {
    return this.#deps.identity?.refused ?? null;
  }

  /** For operators; null while it is held or if unknown. */
  get failure(): string | null {
    return this.held ? null : this.#failure;
  }

  /** Null without a lease. */
  get ageMs(): number | null {
    return this.#settled ? this.#deps.clock.now() - (this.#until - STOP_MS) : null;
  }

  /** Revision of its beginning; 0 before. */
  get since(): number {
    return this.#since;
  }

  /** It has just come back, as those of other nodes may after an outage of the store (F28). */
  get returning(): boolean {
    return this.#deps.clock.now() < this.#returningUntil;
  }

  start(): void {
    void this.#renew();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopRenewing();
    this.#stopWatching();
    this.#settled = false;
    this.#until = Number.NEGATIVE_INFINITY;
    if (this.#revision > 0) await this.#timely(this.#store.delete(this.#key, this.#revision)).catch(() => {});
  }

  async #renew(): Promise<void> {
    const { clock } = this.#deps;
    // What fails here, fails below too.
    await this.#deps.identity?.confirm().catch(() => {});
    if (this.#closed) return;
    const sentAt = clock.now();
    try {
      if (this.refused !== null) throw new Error(this.refused);
      await this.#timely(this.#write());
      if (this.#closed) return;
      this.#until = Math.max(this.#until, sentAt + STOP_MS);
      if (!this.#settled || this.#broken) await this.#regain();
      this.#failure = null;
      this.#failedSince = null;
      this.#warned = false;
      this.#watch();
    } catch (error) {
      if (this.#closed) return;
      this.#failed(error instanceof Error ? error.message : String(error));
    }
    if (this.#closed) return;
    const waited = clock.now() - sentAt;
    this.#stopRenewing = clock.after(Math.max(0, RENEW_MS - waited), () => void this.#renew());
  }

  #failed(reason: string): void {
    const { clock, logger } = this.#deps;
    this.#failure = reason;
    this.#failedSince ??= clock.now();
    logger.debug('lease_not_renewed', { error: reason });
    if (this.#warned || clock.now() - this.#failedSince < WARN_MS) return;
    this.#warned = true;
    logger.warn('node_without_lease', { reason });
  }

  async #regain(): Promise<void> {
    const { clock } = this.#deps;
    const how: Regained = this.#broken ? 'anew' : 'in time';
    if (how === 'anew') {
      if (this.#since > 0) this.#returningUntil = clock.now() + LEASE_MS;
      this.#settled = false;
      this.#since = this.#revision;
      this.#deps.identity?.restore().catch(() => {});
    }
    await this.#node.leaseRegained(how);
    // If it took longer than the lease lasts, the next renewal decides.
    if (this.#closed || clock.now() >= this.#until) return;
    this.#broken = false;
    this.#settled = true;
  }

  async #write(): Promise<void> {
    if (this.#revision > 0) {
      const renewed = await this.#store.update(this.#key, this.#value, this.#revision);
      if (renewed !== null) return this.#wrote(renewed);
      // An earlier write may have arrived without an answer.
      const present = await this.#store.get(this.#key);
      if (present !== null) return this.#over(present.revision);
    }
    this.#broken = true;
    const created = await this.#store.create(this.#key, this.#value);
    if (created !== null) return this.#wrote(created);
    const present = await this.#store.get(this.#key);
    if (present === null) throw new Error('the lease came and went');
    return this.#over(present.revision);
  }

  async #over(revision: number): Promise<void> {
    const renewed = await this.#store.update(this.#key, this.#value, revision);
    if (renewed === null) throw new Error('the lease was written by an earlier attempt meanwhile');
    this.#wrote(renewed);
  }

  /** Late answers may arrive in any order. */
  #wrote(revision: number): void {
    this.#revision = Math.max(this.#revision, revision);
  }

  #watch(): void {
    const { clock } = this.#deps;
    this.#stopWatching();
    const left = this.#until - clock.now();
    this.#stopWatching = clock.after(left > 0 ? left : RENEW_MS, () => {
      if (clock.now() < this.#until || this.#servesOn) this.#watch();
      else if (this.#settled) {
        this.#settled = false;
        this.#node.leaseOver();
      }
    });
  }

  get #servesOn(): boolean {
    const { onBusLoss, bus } = this.#deps;
    return onBusLoss === 'serve' && bus.status.state !== 'connected';
  }

  #timely<T>(work: Promise<T>): Promise<T> {
    return within(this.#deps.clock, PATIENCE_MS, work, () => {
      throw new Error('the store does not answer');
    });
  }
}

export function leaseKey(peer: string): string {
  return `lease.${peer}`;
}
