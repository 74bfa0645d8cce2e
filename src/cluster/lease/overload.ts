import type { ClusterDeps } from '../cluster-deps.ts';
import type { NodeView } from '../nodes/node-state.ts';

/** Without a break: two nodes that are overloaded together know of each other by then, and balancers have seen a new node. */
const RELIEVED_MS = 2_000;
/** An overload ends when the memory has been below 90 %, or the bus has dropped no message, for so long. */
const CALM_MS = 5_000;

/**
 * Whether this node's memory is too short for requests of clients, or it does not keep up with the bus, and whether a load
 * balancer should use other nodes. It should while at least as many can take requests as cannot: the load of many would overload
 * the few.
 */
export class Overload {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'memory'>;
  #fullUntil = Number.NEGATIVE_INFINITY;
  #behindUntil = Number.NEGATIVE_INFINITY;
  #relievedSince: number | null = null;

  constructor(deps: Pick<ClusterDeps, 'clock' | 'memory'>) {
    this.#deps = deps;
  }

  /** Null without one. */
  get reason(): string | null {
    const now = this.#deps.clock.now();
    if (now < this.#fullUntil) return 'overloaded: the memory of this node is short';
    return now < this.#behindUntil ? 'overloaded: this node does not keep up with the bus of its cluster' : null;
  }

  /** Null if it may get new calls. */
  get notReady(): string | null {
    const { reason } = this;
    const relieved = this.#relievedSince !== null && this.#deps.clock.now() - this.#relievedSince >= RELIEVED_MS;
    return relieved && reason !== null ? `${reason}, and other nodes take its requests` : null;
  }

  /** The bus has dropped messages for this node. */
  fellBehind(): void {
    this.#behindUntil = this.#deps.clock.now() + CALM_MS;
  }

  look(others: Iterable<NodeView>): void {
    const now = this.#deps.clock.now();
    const { level } = this.#deps.memory;
    if (level === 'spent' || (level === 'scarce' && now < this.#fullUntil)) this.#fullUntil = now + CALM_MS;
    let able = 0;
    let unable = 1;
    for (const { state, unready = false } of others) {
      if (state !== 'ready') continue;
      if (unready) unable++;
      else able++;
    }
    this.#relievedSince = this.reason !== null && able >= unable ? (this.#relievedSince ?? now) : null;
  }
}
