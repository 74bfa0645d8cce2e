import type { Answer, ServerInfo, Tool, ToolArguments, ToolCallResult } from './mcp-types.ts';
import type { CallOptions } from './operator-calls.ts';

/**
 * One MCP server as a client of it, whatever its transport and revision (S2.5). The gateway makes one for each of its
 * servers (`Gateway.client`), `connectServer` makes one that stands alone, and programs may write their own for a
 * `Router`.
 */
export interface AgentClient {
  readonly name: string;
  /** Whether the server is up and has been listed. */
  readonly isInitialized: boolean;
  /** As it names itself; null before it was initialized. */
  readonly serverInfo: ServerInfo | null;
  /** What the last `refreshTools` found; a failed one changes nothing. In the server's own order. */
  readonly tools: readonly Tool[];
  /** Starts the server if need be, agrees on a revision and lists its tools. Again: does nothing. */
  initialize(): Promise<ServerInfo>;
  /** Lists the tools, all pages of them. */
  refreshTools(): Promise<readonly Tool[]>;
  /** `tool` is the server's own name. Rejects with GatewayError or ServerError; `isError` is the tool's own failure. */
  callTool(tool: string, args?: ToolArguments, options?: CallOptions): Promise<Answer<ToolCallResult>>;
}
