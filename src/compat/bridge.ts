import type { AsAgent, Gateway } from '../app/embedding/gateway-api.ts';
import type { Content, OpenObject, ToolArguments, ToolCallResult } from '../app/embedding/mcp-types.ts';
import type { CallOptions } from '../app/embedding/operator-calls.ts';
import { bridgePrefixed, withoutBridgePrefix } from '../catalog/exposed-names.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { type ToolChange, type ToolMeta, toolChanges } from './compare-tool-lists.ts';

/** The part of a tool's result that a model reads (S4.13). */
export interface ToolText {
  readonly text: string;
  /** Whether the tool itself reported a failure. */
  readonly isError: boolean;
}

/** A tool for other kinds of programs, such as an agent loop or another SDK (S4.18). */
export interface LocalTool {
  /** `mcp__server__tool` (S4.15). */
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments, as its server wrote it. */
  readonly schema: OpenObject;
  execute(args: ToolArguments, options?: CallOptions): Promise<ToolText>;
}

/** A tool under its bridged name (S4.15). */
export interface BridgedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: OpenObject;
}

/** The tools of servers that are up, as `mcp__server__tool`, sorted by that name (S4.15). */
export async function bridgedTools(gateway: Gateway, options?: AsAgent): Promise<readonly BridgedTool[]> {
  const tools = await gateway.tools(options);
  const running = tools
    .filter(({ server }) => gateway.client(server)?.isInitialized === true)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return running.map(({ name, description = '', inputSchema }) => ({
    name: bridgePrefixed(name),
    description,
    inputSchema,
  }));
}

/**
 * Calls a tool by its bridged name and resolves with its text (S4.13). Rejects with GatewayError for a name without `mcp__`, a
 * server that is not connected, and every other failure of the call.
 */
export async function callBridgedTool(
  gateway: Gateway,
  name: string,
  args?: ToolArguments,
  options?: CallOptions & AsAgent,
): Promise<ToolText> {
  const exposed = withoutBridgePrefix(name);
  if (exposed === null) throw new GatewayError('INVALID_PARAMS', `not the name of an MCP tool: ${name}`);
  return resultText(await gateway.callTool(exposed, args, options));
}

/**
 * The changes of the tools since a snapshot of `bridgedTools`, sorted by name (S4.20). Tools of a server that is down count as
 * removed.
 */
export async function pendingSchemaChanges(
  gateway: Gateway,
  snapshot: readonly ToolMeta[],
  options?: AsAgent,
): Promise<readonly ToolChange[]> {
  return toolChanges(snapshot, await bridgedTools(gateway, options));
}

/** A snapshot with one local tool for each tool of the servers that are up (S4.18). */
export async function bridgeAll(gateway: Gateway, { agent }: AsAgent = {}): Promise<readonly LocalTool[]> {
  const asAgent = agent === undefined ? {} : { agent };
  return (await bridgedTools(gateway, asAgent)).map(({ name, description, inputSchema }) => ({
    name,
    description,
    schema: inputSchema,
    execute: (args, options) => callBridgedTool(gateway, name, args, { ...options, ...asAgent }),
  }));
}

/** Joins the text blocks; another block becomes a placeholder: `[image: image/png]`, `[audio content]` (S4.13). */
export function resultText({ content, isError }: ToolCallResult): ToolText {
  return { text: (content ?? []).map(blockText).join(''), isError: isError === true };
}

function blockText({ type, text, mimeType }: Content): string {
  if (type === 'text') return text ?? '';
  return type === 'image' ? `[image: ${mimeType ?? 'unknown'}]` : `[${type} content]`;
}
