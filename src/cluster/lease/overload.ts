import type { ClusterDeps } from '../cluster-deps.ts';
import type { NodeView } from '../nodes/node-state.ts';

/** Others must be able for this long: by then, nodes overloaded at once know of each other, and load balancers know new nodes. */
const RELIEVED_MS = 2_000;
/** An overload ends when, for this long, memory use was below 90 %, or the bus dropped no message. */
const CALM_MS = 5_000;

/**
 * Whether this node is overloaded, because it is short of memory or does not keep up with the bus, and whether load balancers
 * should use other nodes. They should while at least as many nodes can take requests as cannot: otherwise the load of many would
 * overload the few.
 */
export class Overload {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'memory'>;
  #fullUntil = Number.NEGATIVE_INFINITY;
  #behindUntil = Number.NEGATIVE_INFINITY;
  #relievedSince: number | null = null;

  constructor(deps: Pick<ClusterDeps, 'clock' | 'memory'>) {
    this.#deps = deps;
  }

  /** Null if the node is not overloaded. */
  get reason(): string | null {
    const now = this.#deps.clock.now();
    if (now < this.#fullUntil) return 'overloaded: the memory of this node is short';
    return now < this.#behindUntil ? 'overloaded: this node does not keep up with the bus of its cluster' : null;
  }

  /** Why load balancers should use other nodes; null if they may use this one. */
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
    const ready = [...others].filter(({ state }) => state === 'ready');
    const able = ready.filter(({ unready = false }) => !unready).length;
    const unable = ready.length - able + 1;
    this.#relievedSince = this.reason !== null && able >= unable ? (this.#relievedSince ?? now) : null;
  }
}
