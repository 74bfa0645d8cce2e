import type { Bucket, StateRecord } from '../../bus/shared-state.ts';
import { within } from '../../model/clock.ts';
import type { ClusterDeps, Regained, ThisNode } from '../cluster-deps.ts';
import { type LeaseRecord, LONGEST_MS, leaseKey, RENEW_MS, STOP_MS, TAKEOVER_MS } from '../nodes/lease-record.ts';
import type { Witnesses } from '../nodes/witnesses.ts';

const PATIENCE_MS = 1_000;
const WARN_MS = 5_000;
/** Between two renewals. Another node that an outage kept from its renewals seems to be dead after `TAKEOVER_MS`. */
const LATE_MS = 1_500;

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'node' | 'onBusLoss' | 'identity' | 'formerPeer'>;

/**
 * One lease for everything that a node owns. Its validity counts from when the last acknowledged renewal was sent, by the
 * monotonic clock, so that neither a slow network nor a pause makes the holder trust it longer than the store does.
 */
export class NodeLease {
  readonly #deps: Deps;
  readonly #store: Bucket;
  readonly #node: Pick<ThisNode, 'leaseOver' | 'leaseRegained' | 'leaseHeld'>;
  readonly #witnesses: Witnesses;
  readonly #key: string;
  /** 0 without an entry. */
  #revision = 0;
  /** Revision of its beginning; 0 before. */
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
  /** `leaseRegained` has resolved. */
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

  /** It is held without the bus for as long as that is away, although other nodes may have taken what it covers. */
  get servesOn(): boolean {
    const { onBusLoss, bus } = this.#deps;
    return onBusLoss === 'serve' && bus.status.state !== 'connected';
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
    return this.#settled ? this.#deps.clock.now() - this.#renewedAt : null;
  }

  /** It has just come back, as those of other nodes may after an outage of the store (F28). */
  get returning(): boolean {
    return this.#deps.clock.now() < this.#returningUntil;
  }

  start(): void {
    void this.#renew();
  }

  /** An election of the store lasts longer than `STOP_MS`: until then heartbeats that witnesses confirm prolong the lease. */
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
      // Other nodes may have missed renewals too, and renew in a moment.
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
        // It is renewed while many claims are written.
        await within(clock, RENEW_MS, this.#regaining, () => {});
      }
      void this.#endFormer();
      if (this.#settled) {
        this.#failure = null;
        this.#failedSince = null;
        this.#warned = false;
      }
      this.#watch();
    } catch (error) {
      this.#failed(error instanceof Error ? error.message : String(error));
    }
    if (this.#closed) return;
    const waited = clock.now() - sentAt;
    this.#stopRenewing = clock.after(Math.max(0, RENEW_MS - waited), () => void this.#renew());
  }

  /** The process before this one certainly has ended: what it owned is free. */
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
    // If the lease is over, or was over in between, the next renewal decides.
    if (this.#closed || clock.now() >= this.#until || created !== this.#created) return;
    this.#broken = false;
    this.#settled = true;
    this.#node.leaseHeld(how);
  }

  async #write(): Promise<void> {
    const key = this.#key;
    // Read before the write gets its number: one that waits must fail after a later one.
    const revision = this.#revision;
    if (revision > 0) {
      if (await this.#put((value) => this.#store.update(key, value, revision))) return;
      // An earlier write may have arrived without an answer.
      if (await this.#over(await this.#store.get(key))) return;
    }
    this.#broken = true;
    this.#created++;
    if (await this.#put((value) => this.#store.create(key, value))) return;
    if (!(await this.#over(await this.#store.get(key)))) throw new Error('the lease came and went');
  }

  async #over(present: StateRecord | null): Promise<boolean> {
    if (present === null) return false;
    if (await this.#put((value) => this.#store.update(this.#key, value, present.revision))) return true;
    throw new Error('the lease was written by an earlier attempt meanwhile');
  }

  /** Each write has a number of its own: an attempt without an answer may still be going on. */
  async #put(write: (value: Buffer) => Promise<number | null>): Promise<boolean> {
    const { node, bus } = this.#deps;
    const renewal = ++this.#renewals;
    const witnesses = this.#witnesses.of(renewal);
    if (witnesses !== this.#named) {
      // A node of an earlier version may have shortened the life of its records.
      await this.#store.readIncarnation();
      this.#named = witnesses;
    }
    const record: LeaseRecord = { node, peer: bus.peer, renewal, witnesses };
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
    const done = await within(clock, PATIENCE_MS, work, late);
    // A process that stood still gets the answer before its timers run, that of the end of the lease too.
    return clock.now() > end ? late() : done;
  }
}
