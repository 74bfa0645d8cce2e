/**
 * What a node says of itself, or others of it. `joining`: it has no lease yet. `ready`: it serves. `fenced`: its lease is
 * over, and what only one may own is not served by it. `draining`: it takes nothing new.
 */
export type NodeState = 'joining' | 'ready' | 'fenced' | 'draining';

/** A node as the others see it. */
export interface NodeView {
  /** The operator's name for it. */
  readonly id: string;
  /** Who it is on the bus; new with every start. */
  readonly peer: string;
  readonly state: NodeState;
  /** Protocols it speaks, the oldest and the newest. */
  readonly protocols: readonly [number, number];
  /** The newest form of calls that it reads; nodes of earlier versions do not say, and read the first. */
  readonly forms?: number;
  readonly version: string;
  /** Of its lease, as `incarnation.revision`; empty without one. */
  readonly epoch: string;
  /** Changes whenever what it offers does. */
  readonly offer: number;
  /** Calls it serves for other nodes at the moment. */
  readonly load: number;
  /** Calls that its servers have in hand, of clients of any node; nodes of earlier versions do not say. */
  readonly busy?: number;
  /** Servers of which it may start no process more unless it ends an idle one; not there where it may of all. */
  readonly full?: readonly string[];
  /** Those of `full` of which no process is idle; nodes of earlier versions do not say. */
  readonly inUse?: readonly string[];
  /** Whether it serves public subjects, and says which of their calls it has in hand. Absent from nodes of earlier versions. */
  readonly publicCalls?: boolean;
  /** Wall clock of its start. */
  readonly startedAt: number;
}

/** Whether two nodes have a protocol in common. */
export function understand(one: readonly [number, number], other: readonly [number, number]): boolean {
  return one[0] <= other[1] && other[0] <= one[1];
}
