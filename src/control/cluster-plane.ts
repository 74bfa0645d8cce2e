/** A node of the cluster, as people see it. */
export interface NodeEntry {
  readonly node: string;
  /** Who it is on the bus; new with every start. */
  readonly peer: string;
  /** The one that was asked. */
  readonly here: boolean;
  readonly state: 'joining' | 'ready' | 'fenced' | 'draining';
  readonly version: string;
  readonly protocols: readonly [number, number];
  /** Of its lease; empty without one. */
  readonly epoch: string;
  /** Calls of other nodes that it serves at the moment. */
  readonly calls: number;
  /** ISO 8601. */
  readonly startedAt: string;
  /** Servers of its own files. */
  readonly servers: readonly string[];
}

/** Different definitions under one name. */
export interface DefinitionConflict {
  readonly server: string;
  /** The nodes of each definition, those first that calls go to. */
  readonly sides: readonly (readonly string[])[];
}

/** The cluster, as the control API works on it. Implemented by `app/`; a lone gateway has none. */
export interface ClusterPlane {
  nodes(): readonly NodeEntry[];
  conflicts(): readonly DefinitionConflict[];
  /** Has a node finish what it does and end; false when there is none of this name. Rejects when it does not answer. */
  drain(node: string): Promise<boolean>;
}
