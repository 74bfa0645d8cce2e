import type { StateRecord } from '../../bus/shared-state.ts';
import { chunks } from '../../model/chunks.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { every, pause } from '../../model/clock.ts';
import { GatewayError, NoLease } from '../../model/gateway-error.ts';
import type { Regained, ThisNode } from '../cluster-deps.ts';
import { CoalescedReads, singleFlight } from '../coalesced-reads.ts';
import { LEASE_MS, LONGEST_MS, leaseKey, TAKEOVER_MS } from '../nodes/lease-record.ts';
import { compareAndSet, fencingToken } from '../store-records.ts';
import {
  type ClaimContext,
  type ClaimRecord,
  claimText,
  raiseFloor,
  readClaim,
  readFloor,
  recordKey,
} from './claim-record.ts';
import { ClaimReleases } from './claim-releases.ts';
import { ClaimSweep } from './claim-sweep.ts';
import { Claim, OwnClaims } from './own-claims.ts';
import { servesCalls } from './placement.ts';

export type Owner =
  | { readonly kind: 'mine'; readonly claim: Claim }
  | { readonly kind: 'theirs'; readonly node: string; readonly peer: string; readonly epoch: string };

const RETRY_MS = 100;
const KEPT_AT_ONCE = 64;
/** Interval of checks whether the store was made anew. */
const CHECK_MS = 5_000;

/**
 * Claims to what only one node may own at a time: the only process of a singleton, or the processes of one session. A claim is
 * valid while its owner has a lease. After that any node may take it, with a compare-and-set on the revision that it read; of two
 * nodes one succeeds. The revision is the fencing token: it never falls. A store that was created again knows no owners; a
 * node that knew the store before claims nothing until the leases of former owners have expired.
 */
export class Claims {
  readonly #context: ClaimContext;
  readonly #node: Pick<ThisNode, 'claimLost'>;
  readonly #mine = new OwnClaims();
  readonly #sweep: ClaimSweep;
  readonly #releases: ClaimReleases;
  takenOver = 0;
  readonly #claiming = new Map<string, Promise<Owner>>();
  /** Readings of leases, by peer. */
  readonly #reads = new CoalescedReads<StateRecord | null>();
  #incarnation = '';
  /** Highest revision that this node has written in this incarnation. */
  #highest = 0;
  #storeLostAt = Number.NEGATIVE_INFINITY;
  #stopChecking = (): void => {};

  constructor(context: ClaimContext, node: Pick<ThisNode, 'claimLost'>) {
    this.#context = context;
    this.#node = node;
    this.#sweep = new ClaimSweep(context);
    this.#releases = new ClaimReleases(context);
  }

  get size(): number {
    return this.#mine.size;
  }

  /** Returns null if this node does not hold the claim or has no lease. Every call asks: a look-up and a comparison. */
  mine(server: string, key: string): Claim | null {
    const claim = this.#mine.get(server, key);
    return claim !== undefined && this.#context.lease.held ? claim : null;
  }

  /** Whether this node still holds this claim; a later claim of the same key does not count. Every call asks. */
  holds(claim: Claim): boolean {
    return claim.held && this.#context.lease.held;
  }

  /** Returns the recorded owner, which may be dead; null if no node owns the key. Rejects with GatewayError. */
  async owner(server: string, key: string): Promise<Owner | null> {
    const mine = this.mine(server, key);
    if (mine !== null) return { kind: 'mine', claim: mine };
    const entry = await this.#get(recordKey({ server, key }));
    if (entry === null) return null;
    const claimed = readClaim(entry);
    return claimed.peer === '' || claimed.peer === this.#context.deps.bus.peer ? null : this.#theirs(claimed, entry);
  }

  /** Claims the key unless a live node owns it. Rejects with GatewayError NOT_SENT. */
  claim(server: string, key: string, client: ClientProfile | null = null): Promise<Owner> {
    const mine = this.mine(server, key);
    if (mine !== null) return Promise.resolve({ kind: 'mine', claim: mine });
    return singleFlight(this.#claiming, `${server} ${key}`, () => this.#claim(server, key, client));
  }

  /** `forget`: deletes the record, because no later owner needs to know that the claim had one. */
  async release(server: string, key: string, forget: boolean): Promise<void> {
    const claim = this.#mine.get(server, key);
    if (claim === undefined) return;
    this.#mine.delete(claim);
    await this.#releases.now(claim, forget);
  }

  /**
   * Drops the claim now and frees its record when its processes have ended. If the claim is fresh and was never used, deletes the
   * record after raising the floor, so that the claim is fresh for its next owner too.
   */
  async giveUp(claim: Claim, ended: Promise<unknown>): Promise<void> {
    this.#mine.delete(claim);
    await ended;
    const raised = (): Promise<boolean> =>
      raiseFloor(this.#context.store, claim.revision).then(
        () => true,
        () => false,
      );
    const forget = claim.fresh && !claim.used && (await raised());
    await this.#releases.now(claim, forget);
  }

  /** Releases the claim, also if this node has lost it meanwhile. */
  async handOver(claim: Claim): Promise<void> {
    if (this.#mine.get(claim.server, claim.key) === claim) await this.release(claim.server, claim.key, false);
    else this.disown(claim);
  }

  /** Frees the record of a lost claim, so that it does not become valid with this node's next lease. */
  disown(claim: Claim): void {
    this.#releases.later(claim, !servesCalls(claim));
  }

  /** Releases the claims of this session alone; the claims of its principal stay for other sessions. */
  releaseSession(sessionId: string): void {
    for (const { server, key } of this.#mine.under(sessionId)) void this.release(server, key, true);
    for (const owner of this.#claiming.values()) {
      const release = async (): Promise<void> => {
        const claimed = await owner;
        if (claimed.kind !== 'mine' || claimed.claim.key !== sessionId) return;
        await this.release(claimed.claim.server, sessionId, true);
      };
      release().catch(() => {});
    }
  }

  all(): Claim[] {
    return [...this.#mine.values()];
  }

  /** Drops all claims after the lease has ended, and returns them. */
  abandon(): Claim[] {
    const claims = this.all();
    this.#mine.clear();
    return claims;
  }

  /** Writes the claims again that another node could have taken; a claim that it cannot write is lost. */
  async regained(how: Regained): Promise<void> {
    this.#sweep.start();
    // The stream of the claims alone can be lost or deleted, which the lease does not show.
    this.#stopChecking();
    this.#stopChecking = every(this.#context.deps.clock, CHECK_MS, () => this.#checkStore().catch(() => {}));
    if ((await this.#checkStore()) || how === 'in time') return;
    const claims = this.all();
    const keepOrLose = async (claim: Claim): Promise<void> => {
      if (await this.#keep(claim)) return;
      this.#mine.delete(claim);
      this.#node.claimLost(claim);
    };
    for (const some of chunks(claims, KEPT_AT_ONCE)) {
      const ended = await Promise.allSettled(some.map(keepOrLose));
      const failed = ended.find(({ status }) => status === 'rejected');
      if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
    }
  }

  /** Returns whether the store was made anew since the last check. Rejects if it does not answer. */
  async #checkStore(): Promise<boolean> {
    const incarnation = await this.#context.store.readIncarnation();
    const isOther = this.#incarnation !== '' && incarnation !== this.#incarnation;
    this.#incarnation = incarnation;
    if (isOther) this.#storeLost();
    return isOther;
  }

  /** Ends all claims: another node may claim the same in the new store. */
  #storeLost(): void {
    this.#releases.forgetAll();
    this.#highest = 0;
    this.#storeLostAt = this.#context.deps.clock.now();
    for (const claim of this.abandon()) this.#node.claimLost(claim);
  }

  async #keep(claim: Claim): Promise<boolean> {
    const { node, bus } = this.#context.deps;
    const { peer } = bus;
    const store = this.#context.store;
    const name = recordKey(claim);
    const value = claimText({ node, peer, since: claim.since });
    let revision = await store.update(name, value, claim.revision);
    if (revision === null) {
      // An earlier attempt may have written the record without an answer.
      const present = await store.get(name);
      const known = present === null ? null : readClaim(present);
      if (present === null || known?.peer !== peer || known.since !== claim.since) return false;
      revision = await store.update(name, value, present.revision);
    }
    if (revision === null) return false;
    claim.revision = revision;
    this.#highest = Math.max(this.#highest, revision);
    return true;
  }

  async #claim(server: string, key: string, client: ClientProfile | null): Promise<Owner> {
    const { clock, node, bus, logger } = this.#context.deps;
    const { peer } = bus;
    const store = this.#context.store;
    const name = recordKey({ server, key });
    while (this.#context.lease.held && this.#mayBeOwned()) await pause(clock, RETRY_MS);
    const end = clock.now() + LONGEST_MS;
    for (let fresh = false; ; ) {
      const { held, since } = this.#context.lease;
      if (!held) throw noLease(server);
      const entry = await this.#get(name);
      const before = entry === null ? null : readClaim(entry);
      if (before !== null && before.peer !== '' && before.peer !== peer && (await this.#keeps(before.peer))) {
        return this.#theirs(before, entry!);
      }
      // An earlier attempt of this node may have written the record without an answer.
      fresh = entry === null || (fresh && before?.peer === peer);
      const claimed = claimText({ node, peer, since: null });
      // Read before the write, because answers of concurrent claims may arrive in any order.
      const highest = this.#highest;
      const lostAt = this.#storeLostAt;
      const asked = fresh ? this.#asked(() => readFloor(store)) : Promise.resolve(0);
      asked.catch(() => {});
      const revision = await this.#asked(() => compareAndSet(store, name, claimed, entry));
      const forgotten = await asked;
      // The lease may have been lost and regained during the write: another node may have the claim.
      const lease = this.#context.lease;
      if (!lease.held || lease.since !== since) throw noLease(server);
      // So may the store, which the answer then says nothing about.
      if (this.#storeLostAt !== lostAt) throw noLease(server);
      if (revision !== null) {
        if (revision <= highest) {
          this.#storeLost();
          // Otherwise the next check would find the same loss again, and end claims of the new store.
          await this.#checkStore().catch(() => false);
          throw noLease(server);
        }
        this.#highest = Math.max(this.#highest, revision);
        const what = { server, key, fresh, forgotten, client, since: revision };
        const claim = new Claim(what, this.#context.store.incarnation);
        this.#mine.set(claim);
        if (before !== null && before.peer !== '' && before.peer !== peer) {
          this.takenOver++;
          logger.warn('claim_taken_over', { server, from: before.node, epoch: claim.epoch });
        }
        return { kind: 'mine', claim };
      }
      if (clock.now() >= end)
        throw new GatewayError('NOT_SENT', `the owner of ${server} cannot be determined`, { server });
    }
  }

  /** Whether the peer keeps its claim: it is alive, or leases are returning after an outage, when no node takes over. */
  async #keeps(peer: string): Promise<boolean> {
    return this.#context.lease.returning || (await this.#asked(() => this.lives(peer)));
  }

  /** Whether the peer has a lease: by its heartbeats, even if the store lost it, or in the store. Rejects with GatewayError. */
  async lives(peer: string): Promise<boolean> {
    const { leases, nodes } = this.#context;
    // A read would wait while the store elects a leader.
    if (nodes.get(peer)?.state === 'ready') return true;
    if ((await this.#reads.get(peer, () => leases.get(leaseKey(peer)))) === null) return false;
    nodes.markSilent(peer);
    return true;
  }

  /** Whether the store lost its data and former owners, which it does not know, may still serve. */
  #mayBeOwned(): boolean {
    const { deps, nodes } = this.#context;
    const lostMs = deps.clock.now() - this.#storeLostAt;
    if (lostMs >= LEASE_MS) return false;
    const before = ({ epoch }: { readonly epoch: string }) =>
      epoch !== '' && !epoch.startsWith(`${this.#incarnation}.`);
    return lostMs < TAKEOVER_MS || [...nodes.others()].some(before);
  }

  #get(key: string): Promise<StateRecord | null> {
    return this.#asked(() => this.#context.store.get(key));
  }

  /** Retries while the store elects a leader, until this node's lease ends or `LONGEST_MS` have passed. */
  async #asked<T>(work: () => Promise<T>): Promise<T> {
    const { deps, lease } = this.#context;
    for (const end = deps.clock.now() + LONGEST_MS; ; await pause(deps.clock, RETRY_MS)) {
      try {
        return await work();
      } catch (cause) {
        if (lease.held && deps.clock.now() < end) continue;
        throw new NoLease('the store of the cluster does not answer', { cause });
      }
    }
  }

  #theirs({ node, peer, since }: ClaimRecord, entry: StateRecord): Owner {
    return {
      kind: 'theirs',
      node,
      peer,
      epoch: fencingToken(this.#context.store.incarnation, since ?? entry.revision),
    };
  }
}

function noLease(server: string): NoLease {
  const text = 'this node has no lease at the moment, so it does not serve what only one node may';
  return new NoLease(text, { server, retryable: true, retryAfterMs: 1_000 });
}
