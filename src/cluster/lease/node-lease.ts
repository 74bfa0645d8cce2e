import type { Bucket, StateRecord } from '../../bus/shared-state.ts';
import { withTimeout } from '../../model/clock.ts';
import { messageOf } from '../../model/thrown.ts';
import type { ClusterDeps, Regained, ThisNode } from '../cluster-deps.ts';
import { type LeaseRecord, LONGEST_MS, leaseKey, RENEW_MS, STOP_MS, TAKEOVER_MS } from '../nodes/lease-record.ts';
import type { Witnesses } from '../nodes/witnesses.ts';

const PATIENCE_MS = 1_000;
const WARN_MS = 5_000;
/** A longer gap between renewals means an outage. Other nodes that could not renew seem dead after `TAKEOVER_MS`. */
const LATE_MS = 1_500;

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'node' | 'onBusLoss' | 'identity' | 'formerPeer'>;

/**
 * The one lease for everything that a node owns. It is valid from the sending of the last acknowledged renewal, by the
 * monotonic clock, so that neither a slow network nor a pause makes the holder trust it longer than the store does.
 */
export class NodeLease {
  readonly #deps: Deps;
  readonly #store: Bucket;
  readonly #node: Pick<ThisNode, 'leaseOver' | 'leaseRegained' | 'leaseHeld'>;
  readonly #witnesses: Witnesses;
  readonly #key: string;
  /** Revision of the lease record; 0 without one. */
  #revision = 0;
  /** Revision at which the lease began; 0 before the first. */
  since = 0;
  #renewals = 0;
  #named: readonly string[] = [];
  /** When the last acknowledged renewal was sent. Monotonic. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** The store may have dropped the lease since `leaseRegained` ran. */
  #broken = true;
  #created = 0;
  #regaining: Promise<void> | null = null;
  #returningUntil = Number.NEGATIVE_INFINITY;
  #failure: string | null = null;
  #failedSince: number | null = null;
  #warned = false;
  /** `leaseRegained` has resolved, and the lease has not expired since. */
  #settled = false;
  #endedFormer = false;
  #stopRenewing: () => void = () => {};
  #stopWatching: () => void = () => {};
  #closed = false;

  /** `store`: the bucket with TTL `LEASE_MS`. */
  constructor(
    deps: Deps,
    store: Bucket,
    witnesses: Witnesses,
    node: Pick<ThisNode, 'leaseOver' | 'leaseRegained' | 'leaseHeld'>,
  ) {
    this.#deps = deps;
    this.#store = store;
    this.#witnesses = witnesses;
    this.#node = node;
    this.#key = leaseKey(deps.bus.peer);
  }

  get held(): boolean {
    return this.#settled && (this.#deps.clock.now() < this.#until || this.servesOn);
  }

  /** The lease counts as held while the bus is down, although other nodes may have taken over what it covers. */
  get servesOn(): boolean {
    const { onBusLoss, bus } = this.#deps;
    return onBusLoss === 'serve' && !bus.connected;
  }

  /** Why the cluster refuses this node for its secret; null if it does not. */
  get refused(): string | null {
    return this.#deps.identity?.refused ?? null;
  }

  /** Why the node has no lease, for operators; null while it holds one or if unknown. */
  get failure(): string | null {
    return this.held ? null : this.#failure;
  }

  /** Milliseconds since the last acknowledged renewal was sent; null without a lease. */
  get ageMs(): number | null {
    return this.#settled ? this.#deps.clock.now() - this.#renewedAt : null;
  }

  /** The lease was just renewed after a gap; after an outage of the store, other nodes may be about to renew theirs (F28). */
  get returning(): boolean {
    return this.#deps.clock.now() < this.#returningUntil;
  }

  start(): void {
    void this.#renew();
  }

  /** End of the lease. Heartbeats that witnesses confirm prolong it, because an election of the store can exceed `STOP_MS`. */
  get #until(): number {
    return (
      Math.max(this.#renewedAt, Math.min(this.#witnesses.supportedAt, this.#renewedAt + LONGEST_MS - STOP_MS)) + STOP_MS
    );
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopRenewing();
    this.#stopWatching();
    this.#settled = false;
    this.#renewedAt = Number.NEGATIVE_INFINITY;
    if (this.#renewals > 0) await this.#timely(this.#delete()).catch(() => {});
  }

  async #delete(): Promise<void> {
    if (await this.#store.delete(this.#key, this.#revision)) return;
    // A renewal was in flight.
    const present = await this.#store.get(this.#key);
    if (present !== null) await this.#store.delete(this.#key, present.revision);
  }

  async #renew(): Promise<void> {
    const { clock } = this.#deps;
    let sentAt = clock.now();
    try {
      await this.#deps.identity?.confirm();
      if (this.#closed) return;
      sentAt = clock.now();
      if (this.refused !== null) throw new Error(this.refused);
      await this.#timely(this.#write());
      if (this.#closed) return;
      // Other nodes may have missed renewals too, and may be about to renew.
      const isBack = this.#broken || sentAt - this.#renewedAt > LATE_MS;
      if (this.since > 0 && isBack) this.#returningUntil = clock.now() + TAKEOVER_MS;
      this.#renewedAt = Math.max(this.#renewedAt, sentAt);
      this.#witnesses.renewed(sentAt);
      if (!this.#settled || this.#broken) {
        this.#regaining ??= this.#regain()
          .catch((error: Error) => this.#failed(error.message))
          .finally(() => {
            this.#regaining = null;
          });
        // Wait no longer: the lease must be renewed while many claims are written.
        await withTimeout(clock, RENEW_MS, this.#regaining, () => {});
      }
      void this.#endFormer();
      if (this.#settled) {
        this.#failure = null;
        this.#failedSince = null;
        this.#warned = false;
      }
      this.#watch();
    } catch (error) {
      this.#failed(messageOf(error));
    }
    if (this.#closed) return;
    const waited = clock.now() - sentAt;
    this.#stopRenewing = clock.after(Math.max(0, RENEW_MS - waited), () => void this.#renew());
  }

  /** Deletes the lease of this node's previous process, which has certainly ended, to free what it owned. */
  async #endFormer(): Promise<void> {
    const { formerPeer = null, logger, node } = this.#deps;
    if (formerPeer === null || this.#endedFormer) return;
    this.#endedFormer = true;
    try {
      const key = leaseKey(formerPeer);
      const record = await this.#store.get(key);
      if (record !== null && (await this.#store.delete(key, record.revision))) {
        logger.info('lease_ended', { node, peer: formerPeer });
      }
    } catch {
      this.#endedFormer = false;
    }
  }

  #failed(reason: string): void {
    if (this.#closed) return;
    const { clock, logger } = this.#deps;
    this.#failure = reason;
    this.#failedSince ??= clock.now();
    logger.debug('lease_not_renewed', { error: reason });
    if (this.#warned || this.held || clock.now() - this.#failedSince < WARN_MS) return;
    this.#warned = true;
    logger.warn('node_without_lease', { reason });
  }

  async #regain(): Promise<void> {
    const { clock } = this.#deps;
    const how: Regained = this.#broken ? 'anew' : 'in time';
    if (how === 'anew') {
      this.#settled = false;
      this.since = this.#revision;
      this.#deps.identity?.restore().catch(() => {});
    }
    const created = this.#created;
    await this.#node.leaseRegained(how);
    // If the lease has expired, or was created again in between, the next renewal decides.
    if (this.#closed || clock.now() >= this.#until || created !== this.#created) return;
    this.#broken = false;
    this.#settled = true;
    this.#node.leaseHeld(how);
  }

  async #write(): Promise<void> {
    const key = this.#key;
    // Read before `#put` numbers the write: a delayed write must fail after a later one.
    const revision = this.#revision;
    if (revision > 0) {
      if (await this.#put((value) => this.#store.update(key, value, revision))) return;
      // An earlier write may have reached the store although its answer was lost.
      if (await this.#over(await this.#store.get(key))) return;
    }
    this.#broken = true;
    this.#created++;
    // The store may have been made anew, with lower revisions.
    this.#revision = 0;
    if (await this.#put((value) => this.#store.create(key, value))) return;
    if (!(await this.#over(await this.#store.get(key)))) throw new Error('the lease changed while it was being read');
  }

  async #over(present: StateRecord | null): Promise<boolean> {
    if (present === null) return false;
    if (await this.#put((value) => this.#store.update(this.#key, value, present.revision))) return true;
    throw new Error('the lease was written by an earlier attempt meanwhile');
  }

  /** Gives each write its own number, because an earlier attempt without an answer may still be in flight. */
  async #put(write: (value: Buffer) => Promise<number | null>): Promise<boolean> {
    const { node, bus } = this.#deps;
    const renewal = ++this.#renewals;
    const witnesses = this.#witnesses.of(renewal);
    if (witnesses !== this.#named) {
      // A node of an earlier version may have set a shorter TTL; this sets the bucket's options again.
      await this.#store.readIncarnation();
      this.#named = witnesses;
    }
    const record: LeaseRecord = { node, peer: bus.peer, renewal, witnesses };
    if (this.#closed) throw new Error('the node has left');
    this.#witnesses.sends(renewal);
    const revision = await write(Buffer.from(JSON.stringify(record)));
    if (revision === null) return false;
    // Late answers may arrive in any order.
    this.#revision = Math.max(this.#revision, revision);
    this.#witnesses.acknowledged(renewal);
    return true;
  }

  #watch(): void {
    const { clock } = this.#deps;
    this.#stopWatching();
    const left = this.#until - clock.now();
    this.#stopWatching = clock.after(left > 0 ? left : RENEW_MS, () => {
      if (clock.now() < this.#until || this.servesOn) this.#watch();
      else if (this.#settled) {
        this.#settled = false;
        this.#node.leaseOver();
      }
    });
  }

  async #timely<T>(work: Promise<T>): Promise<T> {
    const { clock } = this.#deps;
    const end = clock.now() + PATIENCE_MS;
    const late = (): never => {
      throw new Error('the store does not answer');
    };
    const done = await withTimeout(clock, PATIENCE_MS, work, late);
    // After a pause the process gets the answer before its timers run, even before that of the end of the lease.
    return clock.now() > end ? late() : done;
  }
}
