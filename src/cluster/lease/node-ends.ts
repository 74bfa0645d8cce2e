import { type Clock, pause } from '../../model/clock.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { leaseKey } from './node-lease.ts';

const PAUSE_MS = 100;

/** Whether nodes have ended: they are not heard of any more, and their lease is over. */
export class NodeEnds {
  readonly #nodes: Nodes;
  readonly #leases: LazyBucket;
  readonly #clock: Clock;

  constructor(nodes: Nodes, leases: LazyBucket, clock: Clock) {
    this.#nodes = nodes;
    this.#leases = leases;
    this.#clock = clock;
  }

  /** Waits at most so long for that. `orDraining`: one that is about to leave counts. Never rejects. */
  async over(peer: string, orDraining: boolean, waitMs: number): Promise<boolean> {
    const clock = this.#clock;
    const end = clock.now() + waitMs;
    for (;;) {
      if (await this.#isOver(peer, orDraining)) return true;
      if (clock.now() >= end) return false;
      await pause(clock, PAUSE_MS);
    }
  }

  async #isOver(peer: string, orDraining: boolean): Promise<boolean> {
    const node = this.#nodes.get(peer);
    if (node !== null) return orDraining && node.state === 'draining';
    try {
      return (await this.#leases.get(leaseKey(peer))) === null;
    } catch {
      // A store that cannot be read does not say whether the node has ended.
      return false;
    }
  }
}
