import type { Tool } from '../embedding/mcp-types.ts';

interface PublicReply {
  readonly result?: unknown;
  readonly tools?: readonly Tool[] | null;
  readonly error?: string;
}

/** The result in the reply of an `execute` subject; throws what it says went wrong, or that it is no reply (S0.9). */
export function decodeToolReply(data: Uint8Array): unknown {
  return decoded(data, 'tool').result;
}

/** The tools in the reply of a `list-tools` subject (S0.10). */
export function decodeListToolsReply(data: Uint8Array): readonly Tool[] {
  return decoded(data, 'list-tools').tools ?? [];
}

function decoded(data: Uint8Array, what: string): PublicReply {
  let reply: PublicReply | null;
  try {
    reply = JSON.parse(Buffer.from(data).toString()) as PublicReply | null;
  } catch (cause) {
    throw new Error(`decode ${what} reply: ${(cause as Error).message}`, { cause });
  }
  if (typeof reply !== 'object' || reply === null) throw new Error(`decode ${what} reply: it is no object`);
  if (typeof reply.error === 'string' && reply.error !== '') throw new Error(reply.error);
  return reply;
}
