import type { Clock } from '../../model/clock.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { ThisNode } from '../cluster-deps.ts';
import type { AdvertisedServer } from './advertised.ts';
import type { NodeView } from './node-state.ts';

/** How long a node that fell silent is expected back: as long as claims without an owner are kept. */
export const SILENT_MS = 3_600_000;
/** How long a node that left is expected back: it may be restarting, with its machine. */
const LEFT_MS = 600_000;

export interface LostInstance {
  readonly node: string;
  /** The node announced that it leaves. */
  readonly left: boolean;
  /** The node is back, and its advertisement was not read yet. */
  readonly isReturning: boolean;
  /** Monotonic time when the node was lost or found again, or when this node was back. */
  readonly awaitedSince: number;
  /** Wall-clock time of the loss. */
  readonly seenAt: number;
  /** Wall-clock time when the instance is forgotten unless the node returns. */
  readonly forgottenAt: number;
  readonly advertised: AdvertisedServer;
}

type NodeProcess = Pick<NodeView, 'id' | 'peer' | 'startedAt'>;

interface LostNode {
  readonly node: NodeProcess;
  readonly servers: Map<string, AdvertisedServer>;
  readonly seenAt: number;
  left: boolean;
  awaitedSince: number;
  forgottenAt: number;
  /** Peer id of the node's new process, whose advertisement was not read yet; null without one. */
  newPeer: string | null;
  disarm: () => void;
}

/** Servers of lost nodes. They exist and are unreachable until a node advertises otherwise, or they are forgotten. */
export class LostInstances {
  readonly #clock: Clock;
  readonly #node: Pick<ThisNode, 'serversChanged'>;
  /** Nodes lost within the last hour, by peer. A node that returns under its name replaces its previous process. */
  readonly #nodes = new Map<string, LostNode>();
  #changed = new Set<string>();

  constructor(clock: Clock, node: Pick<ThisNode, 'serversChanged'>) {
    this.#clock = clock;
    this.#node = node;
  }

  get any(): boolean {
    return this.#nodes.size > 0;
  }

  /** `servers` is null if the advertisement was not read; earlier knowledge of the node then stays valid. */
  add(node: NodeProcess, servers: ReadonlyMap<string, AdvertisedServer> | null, left: boolean): void {
    if (servers === null) {
      for (const lost of this.#of(node)) {
        if (lost.newPeer !== node.peer) continue;
        lost.newPeer = null;
        this.#change(lost);
      }
      if (left) this.leaves(node);
      return;
    }
    this.returned(node);
    // Temporary servers end with the process.
    const kept = new Map([...servers].filter(([, { definition }]) => definition.temporary !== true));
    if (kept.size === 0) return;
    const times = { seenAt: this.#clock.wall(), awaitedSince: this.#clock.now(), forgottenAt: 0 };
    const lost: LostNode = { node, servers: kept, left, ...times, newPeer: null, disarm: () => {} };
    this.#nodes.set(node.peer, lost);
    this.#arm(lost);
  }

  leaves(node: NodeProcess): void {
    for (const lost of this.#of(node)) {
      if (lost.left) continue;
      lost.left = true;
      this.#arm(lost);
      this.#node.serversChanged();
    }
  }

  awaitAgain(node: NodeProcess): void {
    for (const lost of this.#of(node)) {
      // Once per process: it may stay unreadable, and calls must not wait forever.
      if (lost.newPeer === node.peer) continue;
      lost.newPeer = node.peer;
      lost.awaitedSince = this.#clock.now();
      this.#arm(lost);
    }
  }

  returned(node: NodeProcess): void {
    for (const { node: gone } of this.#of(node)) this.#forget(gone.peer);
  }

  awaitAllAgain(): void {
    for (const lost of this.#nodes.values()) {
      lost.awaitedSince = this.#clock.now();
      this.#change(lost);
    }
    if (this.#nodes.size > 0) this.#node.serversChanged();
  }

  drop(dropped: ReadonlySet<string>): void {
    if (dropped.size === 0) return;
    for (const [peer, { servers }] of this.#nodes) {
      for (const name of dropped) if (servers.delete(name)) this.#changed.add(name);
      if (servers.size === 0) this.#forget(peer);
    }
  }

  /** The names of the servers whose lost instances changed since the last call. */
  takeChanged(): ReadonlySet<string> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  servers(): ReadonlySet<string> {
    return new Set(this.#nodes.values().flatMap(({ servers }) => servers.keys()));
  }

  of(server: string): readonly LostInstance[] {
    const found: LostInstance[] = [];
    for (const { node, newPeer, servers, left, awaitedSince, seenAt, forgottenAt } of this.#nodes.values()) {
      const advertised = servers.get(server);
      const facts = { node: node.id, isReturning: newPeer !== null, left, awaitedSince, seenAt, forgottenAt };
      if (advertised !== undefined) found.push({ ...facts, advertised });
    }
    return found;
  }

  /** Earlier processes of this node. Two nodes may have the same name. */
  #of({ id, startedAt }: NodeProcess): LostNode[] {
    return [...this.#nodes.values()].filter(({ node }) => node.id === id && node.startedAt <= startedAt);
  }

  #change({ servers }: LostNode): void {
    for (const name of servers.keys()) this.#changed.add(name);
  }

  #arm(lost: LostNode): void {
    lost.disarm();
    this.#change(lost);
    const keptMs = lost.left ? LEFT_MS : SILENT_MS;
    lost.forgottenAt = this.#clock.wall() + keptMs;
    lost.disarm = this.#clock.after(keptMs, () => {
      this.#forget(lost.node.peer);
      this.#node.serversChanged();
    });
  }

  #forget(peer: string): void {
    const lost = this.#nodes.get(peer);
    if (lost === undefined) return;
    lost.disarm();
    this.#change(lost);
    this.#nodes.delete(peer);
  }
}

export function whyLost({ node, left, isReturning }: LostInstance, reached: boolean): string {
  if (!reached) return `this node does not reach NATS, nor node ${node}, which has it`;
  if (isReturning) return `node ${node}, which had it, is there and has not said yet what it has`;
  return left ? `node ${node}, which has it, has left` : `node ${node}, which has it, does not answer`;
}

function remedyOf({ left, isReturning }: LostInstance, reached: boolean): string {
  if (!reached) return 'check the connection to NATS from here';
  if (isReturning) return 'wait a moment; if it stays so, check that node';
  return left ? 'start it again' : 'check that node and its connection to NATS';
}

/** The last advertised status, without the members that no longer hold. */
export function statusOfLost(lost: LostInstance, reached: boolean): ServerStatus | null {
  const { status } = lost.advertised;
  if (status === null) return null;
  const [seen, forgotten] = [lost.seenAt, lost.forgottenAt].map((at) => `${new Date(at).toISOString().slice(0, 19)}Z`);
  return {
    ...status,
    state: 'unreachable',
    health: 'unhealthy',
    reason: `${whyLost(lost, reached)}; it was seen last at ${seen}: ${remedyOf(lost, reached)}. Otherwise this server is forgotten at ${forgotten}`,
    initialized: false,
    nextRetryAt: null,
    processes: null,
  };
}
