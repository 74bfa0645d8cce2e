import type { Clock } from '../../model/clock.ts';
import type { NodeView } from './node-state.ts';
import type { OfferedServer } from './own-offer.ts';

/** Who fell silent may be back. What is nobody's for so long is forgotten, as claims are. */
const SILENT_MS = 3_600_000;
/** Who has left in good order may be about to start anew. */
const LEFT_MS = 60_000;
const MAX_NODES = 256;

/** A node that is gone and may come back, with what it said of a server. */
export interface LostHome {
  /** The operator's name for it. */
  readonly node: string;
  /** It has said that it leaves; else it is just not heard of. */
  readonly left: boolean;
  /** Since when it is gone, by this node's monotonic clock. */
  readonly at: number;
  readonly offered: OfferedServer;
}

interface LostNode {
  readonly left: boolean;
  readonly at: number;
  readonly servers: readonly OfferedServer[];
  readonly disarm: () => void;
}

export interface LostHomesDeps {
  readonly clock: Clock;
  /** A node has been gone for so long that what it had is not expected any more. */
  readonly forgotten: () => void;
}

/**
 * What nodes had that are gone. Whoever is not heard of has dropped nothing, and the files of one that starts anew say the
 * same as before: until it says otherwise its servers are there and cannot be reached, as a server that fails is.
 */
export class LostHomes {
  readonly #deps: LostHomesDeps;
  /** By the operator's names, the one lost first in front. */
  readonly #nodes = new Map<string, LostNode>();

  constructor(deps: LostHomesDeps) {
    this.#deps = deps;
  }

  lost({ id }: NodeView, servers: readonly OfferedServer[], left: boolean): void {
    this.forget(id);
    if (servers.length === 0) return;
    const [first] = this.#nodes.keys();
    if (this.#nodes.size >= MAX_NODES) this.forget(first!);
    const disarm = this.#deps.clock.after(left ? LEFT_MS : SILENT_MS, () => {
      this.#nodes.delete(id);
      this.#deps.forgotten();
    });
    this.#nodes.set(id, { left, at: this.#deps.clock.now(), servers, disarm });
  }

  /** Somebody who was silent has said that it leaves. */
  left(node: NodeView): void {
    const lost = this.#nodes.get(node.id);
    if (lost?.left === false) this.lost(node, lost.servers, true);
  }

  /** Nothing is expected of it any more; or it is back, and has said what it has. */
  forget(id: string): void {
    this.#nodes.get(id)?.disarm();
    this.#nodes.delete(id);
  }

  *[Symbol.iterator](): Iterator<LostHome> {
    for (const [node, { left, at, servers }] of this.#nodes) {
      for (const offered of servers) yield { node, left, at, offered };
    }
  }

  close(): void {
    for (const id of [...this.#nodes.keys()]) this.forget(id);
  }
}
