/** Something that a node did, for the tracker of `openNode` (S0.12). */
export interface Operation {
  /** `start`, `stop`; on NATS `execute`, `list-tools`, `created`, `deleted`; else the MCP method (`tools/call`). */
  readonly name: string;
  /** The subject on NATS, the endpoint (`/mcp`, `/servers/{name}/mcp`) of an MCP method, the server of a start or stop. */
  readonly subject: string;
  /** Absent where a request was for all servers. */
  readonly server?: string;
  readonly durationMs: number;
  /** Null where it succeeded. A tool that answers that it failed (`isError`) has answered. */
  readonly error: Error | null;
}

/** Called after every operation. It must not block. What it throws goes to the log. */
export type Tracker = (operation: Operation) => void;
