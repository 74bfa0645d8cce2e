import { Counts } from '../../model/counts.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

const EVERY_MS = 30_000;
/** Of the callers at a node, those with the most. */
const MAX_PRINCIPALS = 64;

interface ClusterCountsDeps extends Pick<ClusterDeps, 'bus' | 'clock'> {
  readonly subject: string;
  /** What this node counts, by caller. Default: its user adds to that of this object. */
  readonly own?: Counts;
  /** The other nodes. */
  readonly others: () => readonly string[];
  /** Whether there is a node that does not have all records at hand. */
  readonly counting: () => boolean;
}

/** What a node says of what it counts. */
interface NodeCounts {
  readonly total: number;
  readonly principals: Readonly<Record<string, number>>;
}

/** How much all nodes have, where each knows only a part: every node counts its own and tells the others. */
export class ClusterCounts {
  readonly own: Counts;
  readonly #deps: ClusterCountsDeps;
  readonly #elsewhere = new Map<string, NodeCounts>();
  readonly #heard: { close(): void };
  #counting = false;
  #nodes = 1;
  #stop: () => void;

  constructor(deps: ClusterCountsDeps) {
    this.#deps = deps;
    this.own = deps.own ?? new Counts();
    this.#heard = deps.bus.subscribe(deps.subject, (payload, from) => {
      if (from !== deps.bus.peer) this.#elsewhere.set(from, unpackFrame<NodeCounts>(payload).header);
    });
    this.#stop = this.#later();
  }

  /** `principal` null: of all callers. Up to half a minute old. */
  count(principal: string | null): number {
    const { own } = this;
    let count = principal === null ? own.total : own.of(principal);
    const others = new Set(this.#deps.others());
    for (const [peer, { total, principals }] of this.#elsewhere) {
      if (!others.has(peer)) this.#elsewhere.delete(peer);
      else count += principal === null ? total : (principals[principal] ?? 0);
    }
    return count;
  }

  /** Those of half a minute ago, where they were more: what a node has when it starts anew, or all others have, is still there. */
  get nodes(): number {
    return Math.max(this.#nodes, this.#deps.others().length + 1);
  }

  close(): void {
    this.#stop();
    this.#heard.close();
  }

  #later(): () => void {
    return this.#deps.clock.after(EVERY_MS, () => {
      this.#stop = this.#later();
      const { own } = this;
      const { bus, subject, counting, others } = this.#deps;
      // Without NATS all others seem gone.
      if (bus.status.state === 'connected') this.#nodes = others().length + 1;
      // What was published once is counted until it is published anew.
      this.#counting ||= counting();
      if (!this.#counting) return;
      const principals = Object.fromEntries(own.most(MAX_PRINCIPALS));
      bus.publish(subject, packFrame({ total: own.total, principals } satisfies NodeCounts));
    });
  }
}
