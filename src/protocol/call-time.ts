import type { Message } from '../model/message.ts';
import type { Server } from '../model/server.ts';
import { field, stringValue } from './fields.ts';

/** A tool's own deadline, else that of its server, in milliseconds; 0 for none. */
export function timeoutOf({ timeoutMs, toolTimeoutMs }: Server, request: Message): number {
  if (toolTimeoutMs.size === 0 || request.method !== 'tools/call') return timeoutMs;
  return toolTimeoutMs.get(nameIn(request) ?? '') ?? timeoutMs;
}

/** The name of the tool or prompt that is called for. */
export function nameIn({ bytes, bodyStart, bodyEnd }: Message): string | null {
  return bodyStart < 0 ? null : stringValue(bytes, field(bytes, bodyStart, bodyEnd, 'name'));
}
