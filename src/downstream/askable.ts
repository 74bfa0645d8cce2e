import type { Message } from '../model/message.ts';
import { field } from '../protocol/fields.ts';

/**
 * The client capability a server's request needs, or null for requests that need none. Methods we do not know pass:
 * the client answers them itself.
 */
function neededCapability(request: Message): string | null {
  switch (request.method) {
    case 'sampling/createMessage':
      return 'sampling';
    case 'elicitation/create':
      return 'elicitation';
    case 'roots/list':
      return 'roots';
    case 'tasks/get':
    case 'tasks/result':
    case 'tasks/list':
    case 'tasks/cancel':
      return 'tasks';
    default:
      return null;
  }
}

/**
 * Whether the client declared what the request needs (protocol.md S4: nothing is asked that was not declared, modes of
 * elicitation included; an `elicitation` without modes means forms).
 */
export function declares(capabilities: string, request: Message): boolean {
  const needed = neededCapability(request);
  if (needed === null) return true;
  const bytes = Buffer.from(capabilities);
  const declared = field(bytes, 0, bytes.length, needed);
  if (declared === null) return false;
  if (needed !== 'elicitation') return true;
  const url = field(bytes, declared.start, declared.end, 'url') !== null;
  if (elicitationMode(request) === 'url') return url;
  return !url || field(bytes, declared.start, declared.end, 'form') !== null;
}

function elicitationMode(request: Message): 'form' | 'url' {
  if (request.bodyStart < 0) return 'form';
  const mode = field(request.bytes, request.bodyStart, request.bodyEnd, 'mode');
  return mode !== null && request.bytes.toString('latin1', mode.start, mode.end) === '"url"' ? 'url' : 'form';
}
