import { Counts } from '../../model/counts.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

const SUBJECT = 'trunkline.sessions';
const EVERY_MS = 30_000;
/** Of the callers at a node, those with the most sessions. */
const MAX_PRINCIPALS = 64;

interface SessionCountsDeps extends Pick<ClusterDeps, 'bus' | 'clock'> {
  /** The other nodes. */
  readonly others: () => readonly string[];
  /** Whether there is a node that does not have all sessions at hand. */
  readonly counting: () => boolean;
}

/** What a node says of the sessions that it counts. */
interface NodeCounts {
  readonly total: number;
  readonly principals: Readonly<Record<string, number>>;
}

/** How many sessions all nodes have, where each knows only a part: every node counts its own and tells the others. */
export class SessionCounts {
  readonly own = new Counts();
  readonly #deps: SessionCountsDeps;
  readonly #elsewhere = new Map<string, NodeCounts>();
  readonly #heard: { close(): void };
  #stop: () => void;

  constructor(deps: SessionCountsDeps) {
    this.#deps = deps;
    this.#heard = deps.bus.subscribe(SUBJECT, (payload, from) => {
      if (from !== deps.bus.peer) this.#elsewhere.set(from, unpackFrame<NodeCounts>(payload).header);
    });
    this.#stop = this.#later();
  }

  /** `principal` null: of all callers. Up to half a minute old. */
  count(principal: string | null): number {
    let count = principal === null ? this.own.total : this.own.of(principal);
    const others = new Set(this.#deps.others());
    for (const [peer, { total, principals }] of this.#elsewhere) {
      if (!others.has(peer)) this.#elsewhere.delete(peer);
      else count += principal === null ? total : (principals[principal] ?? 0);
    }
    return count;
  }

  close(): void {
    this.#stop();
    this.#heard.close();
  }

  #later(): () => void {
    return this.#deps.clock.after(EVERY_MS, () => {
      this.#stop = this.#later();
      if (!this.#deps.counting()) return;
      const { total } = this.own;
      const most = this.own.most(MAX_PRINCIPALS);
      this.#deps.bus.publish(SUBJECT, packFrame({ total, principals: Object.fromEntries(most) } satisfies NodeCounts));
    });
  }
}
