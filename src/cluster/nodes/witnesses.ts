import type { Bucket } from '../../bus/shared-state.ts';
import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LEASE_MS, type LeaseRecord, leaseKey, RENEW_MS, STOP_MS, TAKEOVER_MS } from './lease-record.ts';

/** A node that the store has not answered for this long confirms heartbeats. */
const LATE_MS = 1.2 * RENEW_MS;
/** Witnesses of a lease, besides its owner. More do not make a majority safer, and each lease names them all. */
const MOST = 4;
/** Own heartbeats that can still be confirmed; older ones prolong nothing. */
const KEPT = 24;
const LOOK_MS = 500;

/** What a heartbeat says about leases. */
export interface Testimony {
  /** Number of this heartbeat. */
  readonly beat: number;
  /** The last renewal of the sender's lease that the store acknowledged; 0 without one. */
  readonly lease: number;
  /** The last renewal that the sender has sent to the store; absent from earlier versions. */
  readonly sent?: number;
  /** While the store does not answer the sender, and shortly after: the last heartbeats that it received, by peer. */
  readonly heard?: Readonly<Record<string, number>>;
  /** Leases of silent nodes that the sender agrees to end: their last renewal, by peer. */
  readonly ends?: Readonly<Record<string, number>>;
}

interface SilentNode {
  readonly peer: string;
  /** The renewal in its record; before that was read, the last one that its heartbeats named as acknowledged. */
  renewal: number;
  /** That renewal was sent before this time. */
  since: number;
  /** The last renewal that its heartbeats named as sent: all up to this one were sent before `since`. */
  readonly sent: number;
  /** Peers that agree to end it, each after that renewal. */
  readonly agreed: Map<string, number>;
  stop: () => void;
}

/**
 * Keeps leases through an election of the store, and ends those of silent nodes (decision 084).
 *
 * A lease names its witnesses. While the store does not answer, heartbeats that a majority has confirmed prolong the lease. To
 * end it before its record expires, so many witnesses must agree that no majority is left. A witness agrees once the node was
 * silent for `TAKEOVER_MS`, and then confirms no more heartbeats. The record is deleted at the revision it had all that time.
 */
export class Witnesses {
  readonly #peer: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #store: Bucket;
  /** Last testimony by peer; null from a version that sends none. */
  readonly #testimonies = new Map<string, Testimony | null>();
  readonly #silent = new Map<string, SilentNode>();
  /** Up to which renewal, and until when, this node confirms no heartbeat of a peer. */
  readonly #refused = new Map<string, { readonly renewal: number; readonly until: number }>();
  /** Peers that left within the life of a lease, with the time: they confirm no heartbeat any more. */
  readonly #left = new Map<string, number>();
  readonly #sentAt = new Map<number, number>();
  /** When the last own heartbeat that each peer confirmed was sent. */
  readonly #confirmed = new Map<string, number>();
  #beat = 0;
  #sent = 0;
  #acknowledged = 0;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #named: readonly string[] = [];
  /** The first renewal that names these witnesses. */
  #namedFrom = 0;
  #supportedAt = Number.NEGATIVE_INFINITY;
  /** When the store answered again after an outage; other nodes may need a moment longer. */
  #answersSince = Number.NEGATIVE_INFINITY;
  /** Sends a heartbeat. */
  sendHeartbeat: () => void = () => {};

  constructor({ bus, clock, logger }: Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>, store: Bucket) {
    this.#peer = bus.peer;
    this.#clock = clock;
    this.#logger = logger;
    this.#store = store;
  }

  /** When the last heartbeat that a majority has confirmed was sent; only once the store has acknowledged the witnesses. */
  get supportedAt(): number {
    return this.#acknowledged >= this.#namedFrom ? this.#supportedAt : Number.NEGATIVE_INFINITY;
  }

  /** The store has not answered for a while. */
  get late(): boolean {
    return this.#clock.now() - this.#renewedAt >= LATE_MS;
  }

  /** The witnesses that this renewal names. They change only if the store has acknowledged the previous renewal. */
  of(renewal: number): readonly string[] {
    const others = [...this.#testimonies.keys()].sort().slice(0, MOST);
    const named = [...this.#testimonies.values()].includes(null) ? [] : others;
    if (this.#acknowledged === renewal - 1 && named.join() !== this.#named.join()) {
      this.#named = named;
      this.#namedFrom = renewal;
    }
    return this.#named;
  }

  /**
   * Called before the write of this renewal. Sends a heartbeat that names it: nodes that find the renewal in the record of a dead
   * node then know that it was sent no later than that heartbeat.
   */
  sends(renewal: number): void {
    this.#sent = Math.max(this.#sent, renewal);
    this.sendHeartbeat();
  }

  /** The store has accepted that renewal; others may be in flight. */
  acknowledged(renewal: number): void {
    this.#acknowledged = Math.max(this.#acknowledged, renewal);
    this.#count();
  }

  renewed(sentAt: number): void {
    if (sentAt - this.#renewedAt >= STOP_MS) this.#answersSince = this.#clock.now();
    this.#renewedAt = Math.max(this.#renewedAt, sentAt);
  }

  testify(): Testimony {
    const now = this.#clock.now();
    const beat = ++this.#beat;
    this.#sentAt.set(beat, now);
    this.#sentAt.delete(beat - KEPT);
    const ends: Record<string, number> = {};
    for (const { peer, agreed } of this.#silent.values()) {
      const renewal = agreed.get(this.#peer);
      if (renewal !== undefined) ends[peer] = renewal;
    }
    const heard: Record<string, number> = {};
    // Other nodes may reach the new leader of the store a moment later.
    if ((this.late || now - this.#answersSince < TAKEOVER_MS) && this.#isWitness) {
      for (const [peer, theirs] of this.#testimonies) if (this.#confirms(peer, theirs)) heard[peer] = theirs.beat;
    }
    return {
      beat,
      lease: this.#acknowledged,
      sent: this.#sent,
      ...(Object.keys(heard).length === 0 ? {} : { heard }),
      ...(Object.keys(ends).length === 0 ? {} : { ends }),
    };
  }

  /** A fenced node counts as silent until it has a lease again. */
  received(from: string, testimony: Testimony | null, fenced: boolean): void {
    if (fenced) this.silent(from);
    else {
      this.#testimonies.set(from, testimony);
      this.#silent.get(from)?.stop();
      this.#silent.delete(from);
    }
    if (testimony === null) return;
    const sentAt = this.#sentAt.get(testimony.heard?.[this.#peer] ?? 0);
    if (sentAt !== undefined) {
      this.#confirmed.set(from, Math.max(sentAt, this.#confirmed.get(from) ?? 0));
      this.#count();
    }
    for (const [peer, renewal] of Object.entries(testimony.ends ?? {})) {
      const silent = this.#silent.get(peer);
      if (silent === undefined || silent.agreed.get(from) === renewal) continue;
      silent.agreed.set(from, renewal);
      this.#lookIn(silent, 0);
    }
  }

  /** The node has announced its end. It agrees to end any lease, also one that still names it as a witness. */
  left(peer: string): void {
    const now = this.#clock.now();
    for (const [one, at] of this.#left) if (now - at >= LEASE_MS) this.#left.delete(one);
    this.#left.set(peer, now);
  }

  /** The node has been silent since then; it may have died before this node started. */
  silent(peer: string, since = this.#clock.now()): void {
    const { lease: renewal = 0, sent = 0 } = this.#testimonies.get(peer) ?? {};
    this.#testimonies.delete(peer);
    this.#confirmed.delete(peer);
    if (this.#silent.has(peer)) return;
    const silent: SilentNode = { peer, renewal, since, sent, agreed: new Map(), stop: () => {} };
    this.#silent.set(peer, silent);
    this.#lookIn(silent, 0);
  }

  /** Among many nodes, only those that leases may name confirm heartbeats. */
  get #isWitness(): boolean {
    return [...this.#testimonies.keys()].filter((peer) => peer < this.#peer).length <= MOST;
  }

  #confirms(peer: string, theirs: Testimony | null): theirs is Testimony {
    const refused = this.#refused.get(peer);
    if (theirs === null) return false;
    return refused === undefined || theirs.lease > refused.renewal || this.#clock.now() >= refused.until;
  }

  #count(): void {
    const times = this.#named.map((peer) => this.#confirmed.get(peer) ?? Number.NEGATIVE_INFINITY);
    // The owner counts towards the majority.
    const needed = Math.floor((times.length + 1) / 2);
    this.#supportedAt = times.sort((a, b) => b - a)[needed - 1] ?? Number.NEGATIVE_INFINITY;
  }

  #lookIn(silent: SilentNode, ms: number): void {
    silent.stop();
    silent.stop = this.#clock.after(ms, () => void this.#look(silent));
  }

  async #look(silent: SilentNode): Promise<void> {
    const { peer } = silent;
    const current = (): boolean => this.#silent.get(peer) === silent;
    try {
      const record = await this.#store.get(leaseKey(peer));
      if (!current()) return;
      if (record === null) {
        this.#silent.delete(peer);
        return;
      }
      const lease = JSON.parse(record.value.toString()) as LeaseRecord;
      // Earlier versions do not count their renewals.
      const { renewal = record.revision } = lease;
      if (renewal !== silent.renewal && renewal > silent.sent) silent.since = this.#clock.now();
      silent.renewal = renewal;
      if (this.#wait(silent) <= 0) await this.#end(silent, lease, record.revision);
    } catch (error) {
      this.#logger.debug('silent_node_unknown', { peer, error: String(error) });
    }
    if (!current()) return;
    this.#lookIn(silent, this.#wait(silent) > 0 ? this.#wait(silent) : LOOK_MS);
  }

  #wait({ since }: SilentNode): number {
    return Math.max(since, this.#answersSince) + TAKEOVER_MS - this.#clock.now();
  }

  async #end({ peer, renewal, agreed }: SilentNode, lease: LeaseRecord, revision: number): Promise<void> {
    const { node, witnesses = [] } = lease;
    if (witnesses.includes(this.#peer) && agreed.get(this.#peer) !== renewal) {
      const now = this.#clock.now();
      for (const [one, { until }] of this.#refused) if (now >= until) this.#refused.delete(one);
      this.#refused.set(peer, { renewal, until: now + LEASE_MS });
      agreed.set(this.#peer, renewal);
      this.sendHeartbeat();
    }
    const leftBy = this.#clock.now() - TAKEOVER_MS;
    const hasLeft = (one: string): boolean => (this.#left.get(one) ?? Number.POSITIVE_INFINITY) <= leftBy;
    const agreeing = witnesses.filter((one) => agreed.get(one) === renewal || hasLeft(one)).length;
    if (agreeing < Math.ceil((witnesses.length + 1) / 2) && witnesses.length > 0) return;
    if (await this.#store.delete(leaseKey(peer), revision)) this.#logger.info('lease_ended', { node, peer });
  }
}
