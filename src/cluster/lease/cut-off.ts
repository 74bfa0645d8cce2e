import type { ClusterDeps } from '../cluster-deps.ts';
import { RENEW_MS } from '../nodes/lease-record.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { NodeLease } from './node-lease.ts';

/** Leases of all nodes end within about one renewal of each other when what all share goes away. */
const SETTLED_MS = RENEW_MS;
const LOOK_MS = RENEW_MS / 2;

/**
 * Whether this node has no lease while others serve: then a load balancer should use those. Heartbeats show it; without the
 * bus this node asks the addresses that the others had announced. If no other node is seen to serve, it is not cut off.
 */
export class CutOff {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'serves'>;
  readonly #lease: NodeLease;
  readonly #nodes: Nodes;
  #since: number | null = null;
  #seen = false;

  constructor(deps: Pick<ClusterDeps, 'clock' | 'serves'>, lease: NodeLease, nodes: Nodes) {
    this.#deps = deps;
    this.#lease = lease;
    this.#nodes = nodes;
  }

  get seen(): boolean {
    return this.#seen && !this.#lease.held;
  }

  start(): void {
    void this.#look();
  }

  async #look(): Promise<void> {
    const { clock } = this.#deps;
    this.#since = this.#lease.held ? null : (this.#since ?? clock.now());
    const settled = this.#since !== null && clock.now() - this.#since >= SETTLED_MS;
    this.#seen = settled && (await this.#othersServe());
    clock.after(LOOK_MS, () => void this.#look());
  }

  async #othersServe(): Promise<boolean> {
    const { serves } = this.#deps;
    for (const { state } of this.#nodes.others()) if (state === 'ready') return true;
    if (serves === undefined) return false;
    // A connection that is cut in one direction looks connected for a while.
    const asked = await Promise.all(Array.from(this.#nodes.announced, ([peer, at]) => serves(peer, at)));
    return asked.includes(true);
  }
}
