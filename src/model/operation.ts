/** An operation of a node, for the tracker of `openNode` (S0.12). */
export interface Operation {
  /** `start`, `stop`; on NATS `execute`, `list-tools`, `created`, `deleted`; else the MCP method (`tools/call`). */
  readonly name: string;
  /** The subject on NATS, the endpoint (`/mcp`, `/servers/{name}/mcp`) of an MCP method, the server of a start or stop. */
  readonly subject: string;
  /** Absent if a request addressed all servers. */
  readonly server?: string;
  readonly durationMs: number;
  /** Null if the operation succeeded. A tool answer with `isError` counts as success. */
  readonly error: Error | null;
}

/** Called after every operation. Must not block. The gateway logs what it throws. */
export type Tracker = (operation: Operation) => void;
