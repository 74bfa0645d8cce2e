import type { ClusterDeps } from '../cluster-deps.ts';
import type { NodeView } from '../nodes/node-state.ts';

/** Without a break: two nodes that are overloaded together know of each other by then, and balancers have seen a new node. */
const RELIEVED_MS = 2_000;
/** Below 90 % for so long, after 95 %. */
const CALM_MS = 5_000;

/**
 * Whether this node's memory is too short for requests of clients, and whether a load balancer should use other nodes. It should
 * while at least as many can take requests as cannot: the load of many would overload the few.
 */
export class Overload {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'memory'>;
  #until = Number.NEGATIVE_INFINITY;
  #relievedSince: number | null = null;

  constructor(deps: Pick<ClusterDeps, 'clock' | 'memory'>) {
    this.#deps = deps;
  }

  get holds(): boolean {
    return this.#deps.clock.now() < this.#until;
  }

  /** Null if it may get new calls. */
  get notReady(): string | null {
    const relieved = this.#relievedSince !== null && this.#deps.clock.now() - this.#relievedSince >= RELIEVED_MS;
    return relieved && this.holds
      ? 'overloaded: the memory of this node is short, and other nodes take its requests'
      : null;
  }

  look(others: Iterable<NodeView>): void {
    const now = this.#deps.clock.now();
    const { level } = this.#deps.memory;
    if (level === 'spent' || (level === 'scarce' && this.holds)) this.#until = now + CALM_MS;
    let able = 0;
    let unable = 1;
    for (const { state, unready = false } of others) {
      if (state !== 'ready') continue;
      if (unready) unable++;
      else able++;
    }
    this.#relievedSince = this.holds && able >= unable ? (this.#relievedSince ?? now) : null;
  }
}
