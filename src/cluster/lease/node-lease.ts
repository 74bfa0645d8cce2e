import { within } from '../../model/clock.ts';
import type { ClusterDeps, Regained, ThisNode } from '../cluster-deps.ts';
import type { LazyBucket } from '../lazy-bucket.ts';

/** After so long without a renewal the store forgets a lease (TTL of its bucket), and others may take what it covered. */
export const LEASE_MS = 2_500;
/** So long after the sending of the last renewal that was acknowledged its holder stops, by its own clock. */
export const STOP_MS = 2_000;
export const RENEW_MS = 500;
/** A renewal that is not acknowledged by then is sent anew. */
const PATIENCE_MS = 1_000;
/** A node that has had no lease for so long logs why. */
const WARN_MS = 5_000;

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'node' | 'onBusLoss'>;

/**
 * One lease for everything a node owns. It is held while renewals are acknowledged; judged by the monotonic clock, from
 * the moment in which the last of them was sent, so that neither a slow network nor a pause of this process can make the
 * holder believe in it for longer than the store does.
 */
export class NodeLease {
  readonly #deps: Deps;
  readonly #store: LazyBucket;
  readonly #node: Pick<ThisNode, 'leaseOver' | 'leaseRegained'>;
  readonly #key: string;
  readonly #value: Buffer;
  /** The entry as last seen written by us; 0 without one. */
  #revision = 0;
  /** Revision in which the present life of the lease began. */
  #since = 0;
  /** Monotonic; the lease counts until then. */
  #until = Number.NEGATIVE_INFINITY;
  /** The store may have forgotten the lease since what it covers was looked after. */
  #broken = true;
  #returningUntil = Number.NEGATIVE_INFINITY;
  /** Why the last attempt to renew it came to nothing; null where it did not. */
  #failure: string | null = null;
  #failedSince: number | null = null;
  #warned = false;
  /** Everything that the lease covers has been looked after since it is ours. */
  #settled = false;
  #stopRenewing: () => void = () => {};
  #stopWatching: () => void = () => {};
  #closed = false;

  /** `store`: the bucket whose entries live for `LEASE_MS`. */
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

  /** Why there is no lease, in words for operators; null while it is held, or where that is not known. */
  get failure(): string | null {
    return this.held ? null : this.#failure;
  }

  /** Since the sending of the last renewal that was acknowledged; null without a lease. */
  get ageMs(): number | null {
    return this.#settled ? this.#deps.clock.now() - (this.#until - STOP_MS) : null;
  }

  /** The store has it in this life; 0 before. */
  get since(): number {
    return this.#since;
  }

  /** It was over and has just come back, as those of other nodes may where the store was away for all of them (F28). */
  get returning(): boolean {
    return this.#deps.clock.now() < this.#returningUntil;
  }

  start(): void {
    void this.#renew();
  }

  /** Lets others have at once what it covered, if anything was left. */
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
    const sentAt = clock.now();
    try {
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

  /** Warns once, and not of a store that is away for a moment. */
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
    }
    await this.#node.leaseRegained(how);
    // It may have taken longer than the lease lasts: the next renewal decides.
    if (this.#closed || clock.now() >= this.#until) return;
    this.#broken = false;
    this.#settled = true;
  }

  /** Writes the entry on top of our own; where that is gone, or never was, as a new one. */
  async #write(): Promise<void> {
    if (this.#revision > 0) {
      const renewed = await this.#store.update(this.#key, this.#value, this.#revision);
      if (renewed !== null) return this.#wrote(renewed);
      // An earlier write of this node may have arrived without an answer.
      const present = await this.#store.get(this.#key);
      if (present !== null) return this.#over(present.revision);
    }
    // From here on it may have begun anew, whatever is heard of that.
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

  /** Attempts that were given up may still arrive, and be heard of, in any order. */
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

  /** The operator wants that what is owned is served while the bus is gone, whatever the lease says. */
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
