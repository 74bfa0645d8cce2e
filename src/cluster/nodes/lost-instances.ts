import type { Clock } from '../../model/clock.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { ThisNode } from '../cluster-deps.ts';
import type { NodeView } from './node-state.ts';
import type { AdvertisedServer } from './own-advertisement.ts';

/** A silent node may be back. What has no owner for so long is forgotten, as claims are. */
const SILENT_MS = 3_600_000;
/** A node that has left in good order may be about to start anew. */
const LEFT_MS = 60_000;
const MAX_NODES = 256;

/** A node that is gone and may come back, with what it said of a server. */
export interface LostInstance {
  /** The operator's name for it. */
  readonly node: string;
  /** It has said that it leaves; else it is just not heard of. */
  readonly left: boolean;
  /** It, or its next process, is there again, and has not said yet what it has. */
  readonly heard: boolean;
  /**
   * Since when it is waited for, by this node's monotonic clock: it was lost then, or heard of again, or this node was
   * back.
   */
  readonly awaitedSince: number;
  readonly advertised: AdvertisedServer;
}

/** Which process of which node. */
type NodeProcess = Pick<NodeView, 'id' | 'peer' | 'startedAt'>;

interface LostNode {
  readonly node: NodeProcess;
  readonly servers: Map<string, AdvertisedServer>;
  left: boolean;
  awaitedSince: number;
  /** Its process that was heard of since, on the bus. */
  heard: string | null;
  disarm: () => void;
}

/**
 * What nodes had that are gone. A silent node has dropped nothing, and the files of one that starts anew say
 * the same as before: until it says otherwise its servers are there and cannot be reached, as a server that fails is.
 */
export class LostInstances {
  readonly #clock: Clock;
  readonly #node: Pick<ThisNode, 'serversChanged'>;
  /** By peer, the one lost first in front: where there are too many it goes. */
  readonly #nodes = new Map<string, LostNode>();

  constructor(clock: Clock, node: Pick<ThisNode, 'serversChanged'>) {
    this.#clock = clock;
    this.#node = node;
  }

  /** `servers`: what it had; null where that was never read, so that what was known before still holds. */
  add(node: NodeProcess, servers: readonly AdvertisedServer[] | null, left: boolean): void {
    if (servers === null) {
      for (const lost of this.#of(node)) if (lost.heard === node.peer) lost.heard = null;
      if (left) this.leaves(node);
      return;
    }
    this.returned(node);
    // Temporary servers end with the process.
    const kept = servers.filter(({ definition }) => definition.temporary !== true);
    if (kept.length === 0) return;
    const [first] = this.#nodes.keys();
    if (this.#nodes.size >= MAX_NODES) this.#forget(first!);
    const named = new Map(kept.map((advertised) => [advertised.definition.name, advertised]));
    const awaitedSince = this.#clock.now();
    const lost: LostNode = { node, servers: named, left, awaitedSince, heard: null, disarm: () => {} };
    this.#nodes.set(node.peer, lost);
    this.#arm(lost);
  }

  /** A node that was silent has said that it leaves. */
  leaves(node: NodeProcess): void {
    for (const lost of this.#of(node)) {
      if (lost.left) continue;
      lost.left = true;
      this.#arm(lost);
      this.#node.serversChanged();
    }
  }

  /** The node, or its next process, is there and has not said yet what it has. */
  awaitAgain(node: NodeProcess): void {
    for (const lost of this.#of(node)) {
      // It may be there for long without being readable: it is not waited for without end.
      if (lost.heard === node.peer) continue;
      lost.heard = node.peer;
      lost.awaitedSince = this.#clock.now();
      this.#arm(lost);
    }
  }

  /** The node, or its next process, is there and has said what it has. */
  returned(node: NodeProcess): void {
    for (const { node: gone } of this.#of(node)) this.#forget(gone.peer);
  }

  /** It was this node that was gone: nodes that are there will be heard of in a moment. */
  awaitAllAgain(): void {
    for (const lost of this.#nodes.values()) lost.awaitedSince = this.#clock.now();
    this.#node.serversChanged();
  }

  /** Nodes that are there have dropped these servers, and speak for the lost ones. */
  drop(dropped: ReadonlySet<string>): void {
    if (dropped.size === 0) return;
    for (const [peer, { servers }] of this.#nodes) {
      for (const name of dropped) servers.delete(name);
      if (servers.size === 0) this.#forget(peer);
    }
  }

  *[Symbol.iterator](): Iterator<LostInstance> {
    for (const { node, left, heard, awaitedSince, servers } of this.#nodes.values()) {
      for (const advertised of servers.values()) {
        yield { node: node.id, left, heard: heard !== null, awaitedSince, advertised };
      }
    }
  }

  close(): void {
    for (const peer of [...this.#nodes.keys()]) this.#forget(peer);
  }

  /** The processes of that node until then. Names are for people, so that two nodes may have the same. */
  #of({ id, startedAt }: NodeProcess): LostNode[] {
    return [...this.#nodes.values()].filter(({ node }) => node.id === id && node.startedAt <= startedAt);
  }

  /** It is forgotten so long after this. */
  #arm(lost: LostNode): void {
    lost.disarm();
    lost.disarm = this.#clock.after(lost.left ? LEFT_MS : SILENT_MS, () => {
      this.#nodes.delete(lost.node.peer);
      this.#node.serversChanged();
    });
  }

  #forget(peer: string): void {
    this.#nodes.get(peer)?.disarm();
    this.#nodes.delete(peer);
  }
}

/** Why no node can be asked for it. */
export function whyLost({ node, left, heard }: LostInstance, reached: boolean): string {
  if (!reached) return `this node does not reach NATS, nor node ${node}, which has it`;
  if (heard) return `node ${node}, which had it, is there and has not said yet what it has`;
  return left ? `node ${node}, which has it, has left` : `node ${node}, which has it, does not answer`;
}

function remedyOf({ left, heard }: LostInstance, reached: boolean): string {
  if (!reached) return 'look after the way to NATS from here';
  if (heard) return 'wait a moment; if it stays so, look after that node';
  return left ? 'start it again' : 'look after that node and its way to NATS';
}

/** What its node said of it last, less what can no longer be true. */
export function statusOfLost(lost: LostInstance, reached: boolean): ServerStatus | null {
  const { status } = lost.advertised;
  if (status === null) return null;
  return {
    ...status,
    state: 'unreachable',
    health: 'unhealthy',
    reason: `${whyLost(lost, reached)}: ${remedyOf(lost, reached)}`,
    initialized: false,
    nextRetryAt: null,
    connections: [],
    replicas: [],
    pool: { active: 0, idle: 0, closed: 0 },
    processes: null,
  };
}
