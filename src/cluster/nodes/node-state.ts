/** `joining`: no lease yet. `fenced`: the lease has expired. `draining`: accepts nothing new. */
export type NodeState = 'joining' | 'ready' | 'fenced' | 'draining';

export interface NodeView {
  readonly id: string;
  /** On the bus; new with every start. */
  readonly peer: string;
  readonly state: NodeState;
  /** Oldest and newest. */
  readonly protocols: readonly [number, number];
  /** Absent: only the first form. */
  readonly forms?: number;
  readonly version: string;
  /** Of its lease; empty without one. */
  readonly epoch: string;
  /** Version of its advertisement. */
  readonly offer: number;
  readonly load: number;
  /** Calls in flight at its servers; absent from nodes of earlier versions. */
  readonly busy?: number;
  /** Sessions with processes, and singletons; absent from nodes of earlier versions. */
  readonly owned?: number;
  /** Servers at their process limit; absent if none. */
  readonly full?: readonly string[];
  /** Those of `full` without an idle process; absent from nodes of earlier versions. */
  readonly inUse?: readonly string[];
  /** Serves public subjects and reports their calls; absent from nodes of earlier versions. */
  readonly publicCalls?: boolean;
  /** Its listener may refuse requests although it has a lease; absent: it takes them. */
  readonly unready?: boolean;
  /** Of its listener, for nodes that do not reach the bus; absent from nodes of earlier versions. */
  readonly addresses?: readonly string[];
  /** Wall clock. */
  readonly startedAt: number;
}

export function understand(one: readonly [number, number], other: readonly [number, number]): boolean {
  return one[0] <= other[1] && other[0] <= one[1];
}
