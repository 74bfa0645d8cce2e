import type { Bucket } from '../../bus/shared-state.ts';
import { pause } from '../../model/clock.ts';
import type { ClusterDeps, ThisNode } from '../cluster-deps.ts';
import { RENEW_MS } from '../nodes/lease-record.ts';
import type { NodeState } from '../nodes/node-state.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { fencingToken } from '../store-records.ts';
import type { NodeLease } from './node-lease.ts';
import { Overload } from './overload.ts';

/** Leases of all nodes end within about one renewal of each other when what all share goes away. */
const SETTLED_MS = RENEW_MS;
const LOOK_MS = RENEW_MS / 2;
const TWO_OWNERS =
  'this node does not reach NATS and goes on with what it owns (cluster.onBusLoss), which other nodes may own, too';

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'serves' | 'memory'>;

/** The state of this node: from its lease, drain requests, its memory, and whether it keeps up with the bus and the others. */
export class OwnNode {
  readonly #deps: Deps;
  readonly #lease: NodeLease;
  readonly #claims: Pick<Bucket, 'incarnation'>;
  readonly #overload: Overload;
  readonly #first = Promise.withResolvers<void>();
  #joined = false;
  #waiting = true;
  draining = false;
  /** Without a lease. */
  #withoutSince: number | null = null;
  #cutOff = false;

  /** `claims`: the bucket. After an outage or dropped messages (F29) the node reads again. */
  constructor(
    deps: Deps,
    lease: NodeLease,
    claims: Pick<Bucket, 'incarnation'>,
    node: Pick<ThisNode, 'missed' | 'backAgain'>,
  ) {
    this.#deps = deps;
    this.#lease = lease;
    this.#claims = claims;
    this.#overload = new Overload(deps);
    deps.bus.onEvent((event) => {
      // A call that was cut because its other end is slow does not concern this node.
      if (event.type === 'slow_consumer' && event.call !== true) this.#overload.fellBehind();
      else if (event.type !== 'connected') return;
      if (event.type === 'connected' && event.resync) node.backAgain();
      node.missed();
    });
  }

  get state(): NodeState {
    if (this.draining) return 'draining';
    if (this.#lease.held) return 'ready';
    return this.#joined ? 'fenced' : 'joining';
  }

  get able(): boolean {
    return this.#lease.held && !this.draining;
  }

  get epoch(): string {
    return this.#lease.since === 0 ? '' : fencingToken(this.#claims.incarnation, this.#lease.since);
  }

  /** Null if it may get new calls. What all nodes lack does not count. */
  get notReady(): string | null {
    if (this.draining) return 'draining';
    const counts = this.#cutOff || this.#lease.refused !== null || (this.state === 'joining' && this.#waiting);
    return (counts ? this.lack : null) ?? this.#overload.notReady;
  }

  /** Other nodes that are overloaded cannot leave their requests to this one. */
  get unready(): boolean {
    return this.#overload.reason !== null;
  }

  /** Why it serves only what needs no owner; null if it serves everything. */
  get lack(): string | null {
    if (this.#lease.held) return null;
    const why = this.#lease.failure === null ? '' : ` (${this.#lease.failure})`;
    if (!this.#joined) return `this node has not joined its cluster yet${why}`;
    return `fenced: this node has no lease, because it does not reach the store of its cluster${why}`;
  }

  get degraded(): readonly string[] {
    const { held, servesOn } = this.#lease;
    return [this.lack, held && servesOn ? TWO_OWNERS : null, this.#overload.reason].filter((one) => one !== null);
  }

  held(): void {
    this.#joined = true;
    this.#first.resolve();
  }

  /** Waits at most `waitMs` for the first lease. */
  async joined(waitMs: number): Promise<void> {
    if (!this.#joined) await Promise.race([this.#first.promise, pause(this.#deps.clock, waitMs)]);
    this.#waiting = false;
  }

  drain(): void {
    this.draining = true;
  }

  /**
   * Looks from now on whether this node has no lease, or is overloaded, while others serve: then a load balancer should use those.
   * Heartbeats show it; without the bus a node without a lease asks the addresses that the others had announced.
   */
  async watch(nodes: Pick<Nodes, 'others' | 'announced'>): Promise<void> {
    const { clock } = this.#deps;
    this.#overload.look(nodes.others());
    this.#withoutSince = this.#lease.held ? null : (this.#withoutSince ?? clock.now());
    const settled = this.#withoutSince !== null && clock.now() - this.#withoutSince >= SETTLED_MS;
    this.#cutOff = settled && (await this.#othersServe(nodes));
    clock.after(LOOK_MS, () => void this.watch(nodes));
  }

  async #othersServe(nodes: Pick<Nodes, 'others' | 'announced'>): Promise<boolean> {
    const { serves } = this.#deps;
    for (const { state } of nodes.others()) if (state === 'ready') return true;
    if (serves === undefined) return false;
    // A connection that is cut in one direction looks connected for a while.
    const asked = await Promise.all(Array.from(nodes.announced, ([peer, at]) => serves(peer, at)));
    return asked.includes(true);
  }
}
