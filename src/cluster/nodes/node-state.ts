/** `joining`: no lease yet. `fenced`: the lease has expired. `draining`: accepts no new work. */
export type NodeState = 'joining' | 'ready' | 'fenced' | 'draining';

export interface NodeView {
  readonly id: string;
  /** Id on the bus; new with every start. */
  readonly peer: string;
  readonly state: NodeState;
  /** Oldest and newest supported version. */
  readonly protocols: readonly [number, number];
  /** The newest form of calls that it reads; absent: only the first. */
  readonly forms?: number;
  readonly version: string;
  /** Fencing token of its current or last lease; empty before the first. */
  readonly epoch: string;
  /** Version of its advertisement. */
  readonly offer: number;
  readonly load: number;
  /** Calls in flight at its servers; absent from nodes of earlier versions. */
  readonly busy?: number;
  /** Number of claims that it holds; absent from nodes of earlier versions. */
  readonly owned?: number;
  /** Servers at their process limit; absent if none. */
  readonly full?: readonly string[];
  /** Those of `full` without an idle process; absent from nodes of earlier versions. */
  readonly inUse?: readonly string[];
  /** Serves public subjects and reports their calls; absent from nodes of earlier versions. */
  readonly publicCalls?: boolean;
  /** Overloaded or not ready yet, although it may have a lease; absent otherwise. */
  readonly unready?: boolean;
  /** Addresses of its listener, for nodes that do not reach the bus; absent without any, and from earlier versions. */
  readonly addresses?: readonly string[];
  /** Wall-clock time of its start. */
  readonly startedAt: number;
}

export function protocolsOverlap(one: readonly [number, number], other: readonly [number, number]): boolean {
  return one[0] <= other[1] && other[0] <= one[1];
}
