import { Counts } from '../../model/counts.ts';
import type { FirstNodeDeps } from '../at-first-node.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

const EVERY_MS = 30_000;
/** A node publishes only the callers with the highest counts. */
const MAX_PRINCIPALS = 64;

interface ClusterCountsDeps extends Pick<FirstNodeDeps, 'bus' | 'clock' | 'nodes'> {
  readonly subject: string;
  /** This node's counts by caller. Default: a new object, which the user of this class updates. */
  readonly own?: Counts;
  /** Whether some node may not have all records in memory, so that this node must publish its counts. */
  readonly counting: () => boolean;
}

/** The counts that a node publishes. */
interface NodeCounts {
  readonly total: number;
  readonly principals: Readonly<Record<string, number>>;
}

/** Counts records of all nodes when each node knows only a part: every node counts its own and publishes the counts. */
export class ClusterCounts {
  readonly own: Counts;
  readonly #deps: ClusterCountsDeps;
  readonly #elsewhere = new Map<string, NodeCounts>();
  readonly #subscription: { close(): void };
  #counting = false;
  #nodes = 1;
  #stop: () => void;

  constructor(deps: ClusterCountsDeps) {
    this.#deps = deps;
    this.own = deps.own ?? new Counts();
    this.#subscription = deps.bus.subscribe(deps.subject, (payload, from) => {
      if (from !== deps.bus.peer) this.#elsewhere.set(from, unpackFrame<NodeCounts>(payload).header);
    });
    this.#stop = this.#schedule();
  }

  /** `principal` null: all callers. The counts of other nodes are up to half a minute old. */
  count(principal: string | null): number {
    const { own } = this;
    let count = principal === null ? own.total : own.of(principal);
    const others = new Set(Array.from(this.#deps.nodes.others(), ({ peer }) => peer));
    for (const [peer, { total, principals }] of this.#elsewhere) {
      if (!others.has(peer)) this.#elsewhere.delete(peer);
      else count += principal === null ? total : (principals[principal] ?? 0);
    }
    return count;
  }

  /** Number of nodes, now or half a minute ago, if higher: records of nodes that just restarted or vanished still exist. */
  get nodes(): number {
    return Math.max(this.#nodes, this.#nodesNow);
  }

  get #nodesNow(): number {
    return [...this.#deps.nodes.others()].length + 1;
  }

  close(): void {
    this.#stop();
    this.#subscription.close();
  }

  #schedule(): () => void {
    return this.#deps.clock.after(EVERY_MS, () => {
      this.#stop = this.#schedule();
      const { own } = this;
      const { bus, subject, counting } = this.#deps;
      // Without NATS all other nodes seem gone.
      if (bus.connected) this.#nodes = this.#nodesNow;
      // Other nodes use a published count until the next one, so go on publishing.
      this.#counting ||= counting();
      if (!this.#counting) return;
      const principals = Object.fromEntries(own.most(MAX_PRINCIPALS));
      bus.publish(subject, packFrame({ total: own.total, principals } satisfies NodeCounts));
    });
  }
}
