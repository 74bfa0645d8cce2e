import type { Message } from '../model/message.ts';
import type { Server } from '../model/server.ts';
import { bodyString } from './body.ts';

/** A tool's own deadline, else that of its server, in milliseconds; 0 for none. */
export function timeoutOf({ timeoutMs, toolTimeoutMs }: Server, request: Message): number {
  if (toolTimeoutMs.size === 0 || request.method !== 'tools/call') return timeoutMs;
  return toolTimeoutMs.get(nameIn(request) ?? '') ?? timeoutMs;
}

/** The name of the tool or prompt that is called for. */
export function nameIn(request: Message): string | null {
  return bodyString(request, 'name');
}
