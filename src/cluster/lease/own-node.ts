import type { Clock } from '../../model/clock.ts';
import { fencingToken } from '../fencing-token.ts';
import type { NodeState, NodeView } from '../nodes/node-state.ts';
import { PROTOCOLS } from '../nodes/nodes.ts';
import { Joining } from './joining.ts';
import type { NodeLease } from './node-lease.ts';

export interface OwnNodeDeps {
  readonly clock: Clock;
  readonly node: string;
  readonly peer: string;
  readonly version: string;
  readonly lease: NodeLease;
  /** Of the bucket of claims; empty before it is known. */
  readonly incarnation: () => string;
  /** Changes with what the node offers. */
  readonly offer: () => number;
  /** Calls of others that it serves at the moment. */
  readonly load: () => number;
  /** Servers of which it may start no process more unless it ends an idle one, and those where none is idle. */
  readonly full: () => Required<Pick<NodeView, 'full' | 'inUse'>>;
  /** Calls that its servers have in hand. */
  readonly busy: () => number;
  readonly publicCalls: () => boolean;
}

/** This node in its cluster: in which state it is, by its lease and by what it was asked to do, and what others see of it. */
export class OwnNode {
  readonly #deps: OwnNodeDeps;
  readonly #startedAt: number;
  readonly #joining = new Joining();
  #draining = false;

  constructor(deps: OwnNodeDeps) {
    this.#deps = deps;
    this.#startedAt = deps.clock.wall();
  }

  get state(): NodeState {
    if (this.#draining) return 'draining';
    if (this.#deps.lease.held) return 'ready';
    return this.#joining.over ? 'fenced' : 'joining';
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Whether it may own what only one node may. */
  get able(): boolean {
    return this.#deps.lease.held && !this.#draining;
  }

  /** Of its lease; empty before the first. */
  get epoch(): string {
    const { lease, incarnation } = this.#deps;
    return lease.since === 0 ? '' : fencingToken(incarnation(), lease.since);
  }

  get view(): NodeView {
    const { node, peer, version, offer, load, full, busy, publicCalls } = this.#deps;
    const crowded = full();
    return {
      id: node,
      peer,
      state: this.state,
      protocols: PROTOCOLS,
      version,
      epoch: this.epoch,
      offer: offer(),
      load: load(),
      busy: busy(),
      publicCalls: publicCalls(),
      ...(crowded.full.length === 0 ? {} : crowded),
      startedAt: this.#startedAt,
    };
  }

  /** It has its lease, for the first time or again. */
  held(): void {
    this.#joining.held();
  }

  /** Resolves when it has had a lease, at the latest after `waitMs`. */
  joined(waitMs: number): Promise<void> {
    return this.#joining.within(this.#deps.clock, waitMs);
  }

  /** It takes nothing new from now on. */
  drain(): void {
    this.#draining = true;
  }
}
