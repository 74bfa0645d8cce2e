import type { Bucket } from '../../bus/shared-state.ts';
import { pause } from '../../model/clock.ts';
import type { ClusterDeps, ThisNode } from '../cluster-deps.ts';
import { RENEW_MS } from '../nodes/lease-record.ts';
import type { NodeState } from '../nodes/node-state.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { fencingToken } from '../store-records.ts';
import type { NodeLease } from './node-lease.ts';
import { Overload } from './overload.ts';

/** If all nodes lose the store or the bus, their leases end within about one renewal of each other. */
const SETTLED_MS = RENEW_MS;
const LOOK_MS = RENEW_MS / 2;
const TWO_OWNERS =
  'this node does not reach NATS and goes on with what it owns (cluster.onBusLoss), which other nodes may own, too';

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'serves' | 'memory'>;

/** The state of this node, from its lease, drain requests, its overload, and whether other nodes serve. */
export class OwnNode {
  readonly #deps: Deps;
  readonly #lease: NodeLease;
  readonly #claims: Pick<Bucket, 'incarnation'>;
  readonly #overload: Overload;
  readonly #first = Promise.withResolvers<void>();
  #joined = false;
  #waiting = true;
  draining = false;
  /** Monotonic time since when this node has had no lease; null while it has one. */
  #withoutSince: number | null = null;
  #cutOff = false;

  /** `claims`: the bucket of claims. After an outage or dropped messages (F29) `node` reads again what it may have missed. */
  constructor(
    deps: Deps,
    lease: NodeLease,
    claims: Pick<Bucket, 'incarnation'>,
    node: Pick<ThisNode, 'messagesMissed' | 'rejoined'>,
  ) {
    this.#deps = deps;
    this.#lease = lease;
    this.#claims = claims;
    this.#overload = new Overload(deps);
    deps.bus.onEvent((event) => {
      // With `call`, the other end of one call is slow, not this node.
      if (event.type === 'slow_consumer' && event.call !== true) this.#overload.fellBehind();
      else if (event.type !== 'connected') return;
      if (event.type === 'connected' && event.resync) node.rejoined();
      node.messagesMissed();
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

  /** Why load balancers should not use this node; null if they may. What all nodes lack does not count. */
  get notReady(): string | null {
    if (this.draining) return 'draining';
    const counts = this.#cutOff || this.#lease.refused !== null || (this.state === 'joining' && this.#waiting);
    return (counts ? this.noLeaseReason : null) ?? this.#overload.notReady;
  }

  /** Whether this node is overloaded, so that other overloaded nodes cannot rely on it. */
  get unready(): boolean {
    return this.#overload.reason !== null;
  }

  /** Why this node serves only calls that need no owner; null if it serves all calls. */
  get noLeaseReason(): string | null {
    if (this.#lease.held) return null;
    const why = this.#lease.failure === null ? '' : ` (${this.#lease.failure})`;
    if (!this.#joined) return `this node has not joined its cluster yet${why}`;
    return `fenced: this node has no lease, because it does not reach the store of its cluster${why}`;
  }

  get degraded(): readonly string[] {
    const { held, servesOn } = this.#lease;
    return [this.noLeaseReason, held && servesOn ? TWO_OWNERS : null, this.#overload.reason].filter(
      (one) => one !== null,
    );
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
   * Checks from now on whether this node has no lease, or is overloaded, while others serve: load balancers should then use them.
   * If no heartbeat shows a ready node, a node without a lease asks the announced addresses.
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
    // Also while the bus looks connected: a connection cut in one direction does for a while.
    const asked = await Promise.all(Array.from(nodes.announced, ([peer, at]) => serves(peer, at)));
    return asked.includes(true);
  }
}
