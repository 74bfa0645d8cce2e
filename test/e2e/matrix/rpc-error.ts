import type { Json } from './matrix-client.ts';

/**
 * The JSON-RPC error behind what an SDK throws. SDK 1 changes its message, and SDK 2 hides an error that came with an HTTP
 * status of its own in the text of the answer.
 */
export function rpcError(cause: unknown): Json {
  const { code, message, data } = cause as { code?: unknown; message?: string; data?: Json };
  if (typeof code === 'number') return { code, message: (message ?? '').replace(/^MCP error -?\d+: /, ''), data };
  const answer = typeof data?.text === 'string' ? JSON.parse(data.text) : null;
  if (answer?.error === undefined) throw cause;
  return { ...answer.error, status: data.status };
}
