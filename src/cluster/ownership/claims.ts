import type { StateRecord } from '../../bus/shared-state.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ClusterDeps, Regained, ThisNode } from '../cluster-deps.ts';
import { fencingToken, type LazyBucket } from '../lazy-bucket.ts';
import { LEASE_MS, leaseKey, type NodeLease } from '../lease/node-lease.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { type Claimed, claimText, forgottenUpTo, raiseFloor, readClaim, recordKey } from './claim-record.ts';
import { ClaimReleases } from './claim-releases.ts';
import { ClaimSweep } from './claim-sweep.ts';
import { Claim, OwnClaims } from './own-claims.ts';
import { servesCalls } from './placement.ts';

/** Whose something is. */
export type Owner =
  | { readonly kind: 'mine'; readonly claim: Claim }
  | { readonly kind: 'theirs'; readonly node: string; readonly peer: string; readonly epoch: string };

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'node'>;

/** What is being made this node's. */
interface Claiming {
  readonly server: string;
  readonly key: string;
  readonly owner: Promise<Owner>;
}

/** How long two who write at once go on trying. */
const WAIT_MS = 5_000;

/**
 * What only one node may own at a time: a server's one process of the whole cluster, the processes of one session. A
 * claim counts as long as its owner's lease; when that is over any node may take it, by a write on the revision that was
 * read, so that of two who try one succeeds. The revision is the fencing token: it never falls. A store that was made anew
 * knows no owners; a node that knew the one before claims nothing until their leases are over.
 */
export class Claims {
  readonly #deps: Deps;
  readonly #store: LazyBucket;
  readonly #leases: LazyBucket;
  readonly #lease: NodeLease;
  readonly #node: Pick<ThisNode, 'claimLost'>;
  readonly #mine = new OwnClaims();
  readonly #sweep: ClaimSweep;
  readonly #releases: ClaimReleases;
  #takenOver = 0;
  readonly #claiming = new Map<string, Claiming>();
  #incarnation = '';
  /** Highest that this making of the store was seen to give out. */
  #highest = 0;
  /** Nothing may be claimed before: the store has lost who owned what, and they have not. */
  #claimableAt = Number.NEGATIVE_INFINITY;

  /** `store`: the bucket of claims, whose entries stay; `leases`: that of the leases. */
  constructor(
    deps: Deps,
    store: LazyBucket,
    leases: LazyBucket,
    lease: NodeLease,
    nodes: Pick<Nodes, 'first'>,
    node: Pick<ThisNode, 'claimLost'>,
  ) {
    this.#deps = deps;
    this.#store = store;
    this.#leases = leases;
    this.#lease = lease;
    this.#node = node;
    this.#sweep = new ClaimSweep(deps, store, leases, lease, nodes);
    this.#releases = new ClaimReleases(deps, store, lease);
  }

  get size(): number {
    return this.#mine.size;
  }

  /** How often something became this node's that another one had owned. */
  get takenOver(): number {
    return this.#takenOver;
  }

  /** The claim, if it is this node's at this instant. A look-up and a comparison. */
  mine(server: string, key: string): Claim | null {
    const claim = this.#mine.get(server, key);
    return claim !== undefined && this.#lease.held ? claim : null;
  }

  /** The same claim, still: not lost, and not lost and won again. Every call asks, twice and more. */
  still(claim: Claim): boolean {
    return claim.held && this.#lease.held;
  }

  /** Whose it is; null without an owner. Rejects with GatewayError while the store does not answer. */
  async owner(server: string, key: string): Promise<Owner | null> {
    const mine = this.mine(server, key);
    if (mine !== null) return { kind: 'mine', claim: mine };
    const entry = await this.#get(recordKey({ server, key }));
    if (entry === null) return null;
    const claimed = readClaim(entry);
    return claimed.peer === '' || claimed.peer === this.#deps.bus.peer ? null : this.#theirs(claimed, entry);
  }

  /** Makes it this node's, unless it is that of a node that lives. Rejects with GatewayError NOT_SENT. */
  claim(server: string, key: string, client: ClientProfile | null = null): Promise<Owner> {
    const mine = this.mine(server, key);
    if (mine !== null) return Promise.resolve({ kind: 'mine', claim: mine });
    const name = `${server} ${key}`;
    const running = this.#claiming.get(name);
    if (running !== undefined) return running.owner;
    const owner = this.#claim(server, key, client).finally(() => this.#claiming.delete(name));
    this.#claiming.set(name, { server, key, owner });
    return owner;
  }

  /** Not this node's any more, as soon as the store takes it. `forget`: it is not claimed again. */
  async release(server: string, key: string, forget: boolean): Promise<void> {
    const claim = this.#mine.get(server, key);
    if (claim === undefined) return;
    this.#mine.delete(claim);
    await this.#releases.now(claim, forget);
  }

  /**
   * Not this node's from this instant on, and free for others when what runs of it here has ended. What was never used is
   * forgotten, so that it is new to its next owner; the floor rises first, for processes that may be older.
   */
  async giveUp(claim: Claim, ended: Promise<unknown>): Promise<void> {
    this.#mine.delete(claim);
    await ended;
    const raised = (): Promise<boolean> =>
      raiseFloor(this.#store, claim.revision).then(
        () => true,
        () => false,
      );
    const forget = claim.fresh && !claim.used && (await raised());
    await this.#releases.now(claim, forget);
  }

  /** What ran of it here has ended: others may have it, also where this node has lost it meanwhile. */
  async handOver(claim: Claim): Promise<void> {
    if (this.#mine.get(claim.server, claim.key) === claim) await this.release(claim.server, claim.key, false);
    else this.disown(claim);
  }

  /** Lost or abandoned, and not wanted back: its record is not to come to life again with this node's lease. */
  disown(claim: Claim): void {
    this.#releases.later(claim, !servesCalls(claim));
  }

  /**
   * Forgets what is this session's alone, and what is being claimed for it. What a principal has goes on for its other
   * sessions.
   */
  releaseSession(sessionId: string): void {
    for (const { server, key } of this.#mine.under(sessionId)) void this.release(server, key, true);
    for (const { server, key, owner } of this.#claiming.values()) {
      if (key !== sessionId) continue;
      void owner.then(
        () => this.release(server, key, true),
        () => {},
      );
    }
  }

  all(): Claim[] {
    return [...this.#mine.values()];
  }

  /** Nothing is owned any more, without an event: the lease is over and so is everything that it covered. */
  abandon(): Claim[] {
    const claims = this.all();
    this.#mine.clear();
    return claims;
  }

  /** The lease is held again. What another node could have taken meanwhile is written anew, or was taken. */
  async regained(how: Regained): Promise<void> {
    const incarnation = await this.#store.readIncarnation();
    const other = this.#incarnation !== '' && incarnation !== this.#incarnation;
    this.#incarnation = incarnation;
    this.#sweep.start();
    if (other) {
      this.#releases.forgetAll();
      this.#highest = 0;
      this.#claimableAt = this.#deps.clock.now() + LEASE_MS;
    }
    if (how === 'in time' && !other) return;
    for (const claim of this.all()) {
      if (!other && (await this.#keep(claim))) continue;
      this.#mine.delete(claim);
      this.#node.claimLost(claim);
    }
  }

  close(): void {
    this.#sweep.close();
    this.#releases.close();
  }

  async #keep(claim: Claim): Promise<boolean> {
    const { node, bus } = this.#deps;
    const { peer } = bus;
    const store = this.#store;
    const name = recordKey(claim);
    const value = claimText({ node, peer, since: claim.since });
    let revision = await store.update(name, value, claim.revision);
    if (revision === null) {
      // An attempt of this node may have arrived without an answer.
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
    const { clock, node, bus, logger } = this.#deps;
    const { peer } = bus;
    const store = this.#store;
    const name = recordKey({ server, key });
    const tooSoonMs = this.#claimableAt - clock.now();
    if (tooSoonMs > 0) await pause(clock, tooSoonMs);
    const end = clock.now() + WAIT_MS;
    for (;;) {
      const { held, since } = this.#lease;
      if (!held) throw noLease(server);
      const entry = await this.#get(name);
      const before = entry === null ? null : readClaim(entry);
      if (before !== null && before.peer !== '' && before.peer !== peer && (await this.#keeps(before.peer))) {
        return this.#theirs(before, entry!);
      }
      const claimed = claimText({ node, peer, since: null });
      // Of claims that are made at once the answers may come in any order.
      const highest = this.#highest;
      const asked = entry === null ? this.#asked(() => forgottenUpTo(store)) : Promise.resolve(0);
      asked.catch(() => {});
      const revision = await this.#asked(() =>
        entry === null ? store.create(name, claimed) : store.update(name, claimed, entry.revision),
      );
      const forgotten = await asked;
      // The lease may have ended while the write was under way, and begun anew: then another node may have it by now.
      const lease = this.#lease;
      if (!lease.held || lease.since !== since) throw noLease(server);
      if (revision !== null) {
        // The store begins again: it was made anew, which the lease has not noticed yet.
        if (revision <= highest) throw noLease(server);
        this.#highest = Math.max(this.#highest, revision);
        const what = { server, key, fresh: entry === null, forgotten, client, since: revision };
        const claim = new Claim(what, this.#store.incarnation);
        this.#mine.set(claim);
        if (before !== null && before.peer !== '') {
          this.#takenOver++;
          logger.warn('claim_taken_over', { server, from: before.node, epoch: claim.epoch });
        }
        return { kind: 'mine', claim };
      }
      if (clock.now() >= end)
        throw new GatewayError('NOT_SENT', `the owner of ${server} cannot be determined`, { server });
    }
  }

  /** No node takes over while all of them come back: each node is to find what it had. */
  async #keeps(peer: string): Promise<boolean> {
    return this.#lease.returning || (await this.lives(peer));
  }

  /** Whether the lease of that node is in the store. Rejects with GatewayError. */
  async lives(peer: string): Promise<boolean> {
    return (await this.#asked(() => this.#leases.get(leaseKey(peer)))) !== null;
  }

  #get(key: string): Promise<StateRecord | null> {
    return this.#asked(() => this.#store.get(key));
  }

  async #asked<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      throw new GatewayError('NOT_SENT', 'the store of the cluster does not answer', { cause });
    }
  }

  #theirs({ node, peer, since }: Claimed, entry: StateRecord): Owner {
    return { kind: 'theirs', node, peer, epoch: fencingToken(this.#store.incarnation, since ?? entry.revision) };
  }
}

/** Nothing that only one may own can be served now. */
function noLease(server: string): GatewayError {
  const text = 'this node has no lease at the moment, so it does not serve what only one node may';
  return new GatewayError('NOT_SENT', text, { server, retryable: true, retryAfterMs: 1_000 });
}
