import { CATALOGUE } from '../model/error-catalogue.ts';
import type { Message } from '../model/message.ts';
import { errorAnswer } from './compose.ts';
import { field, type Range, stringValue } from './fields.ts';

/** Longest capabilities and info of one client: its session keeps them, and so do the lists of servers for its kind. */
const MAX_INTRODUCTION_BYTES = 64 * 1024;

/** A capability and, where it matters, the required part of it: `['elicitation', 'url']`. */
type Needed = readonly [capability: string, part?: string];

/** The client capability that a server's request needs; null for none. Unknown methods need none. */
function needed(method: string, bytes: Buffer, params: Range | null): Needed | null {
  switch (method) {
    case 'sampling/createMessage':
      return has(bytes, params, 'tools') || has(bytes, params, 'toolChoice') ? ['sampling', 'tools'] : ['sampling'];
    case 'elicitation/create':
      return isUrlMode(bytes, params) ? ['elicitation', 'url'] : ['elicitation', 'form'];
    case 'roots/list':
      return ['roots'];
    case 'tasks/get':
    case 'tasks/result':
    case 'tasks/list':
    case 'tasks/cancel':
      return ['tasks'];
    default:
      return null;
  }
}

/**
 * What a server's request needs and the client did not declare, as capabilities in JSON; null for nothing (proto:S4).
 * `elicitation` without modes means forms.
 */
export function missingCapability(
  capabilities: string,
  method: string,
  bytes: Buffer,
  params: Range | null,
): string | null {
  const need = needed(method, bytes, params);
  if (need === null) return null;
  const [capability, part] = need;
  const given = Buffer.from(capabilities);
  const declared = field(given, 0, given.length, capability);
  const missing = `{"${capability}":${part === undefined ? '{}' : `{"${part}":{}}`}}`;
  if (declared === null) return missing;
  if (part === undefined || has(given, declared, part)) return null;
  return part === 'form' && !has(given, declared, 'url') ? null : missing;
}

export function declares(capabilities: string, { method, bytes, bodyStart, bodyEnd }: Message): boolean {
  const params = bodyStart < 0 ? null : { start: bodyStart, end: bodyEnd };
  return missingCapability(capabilities, method, bytes, params) === null;
}

/** The error with which the gateway refuses such a request for the client. */
export function missingCapabilityError(server: string, method: string, missing: string): Message {
  const text = `${server} needs ${method} of the client, which did not declare ${missing}`;
  const data = `{"requiredCapabilities":${missing}}`;
  return errorAnswer('0', CATALOGUE.MISSING_CAPABILITY.rpc, text, data, 'stateless');
}

export function isIntroductionTooLong(capabilities: Range | null, info: Range | null): boolean {
  return length(capabilities) + length(info) > MAX_INTRODUCTION_BYTES;
}

export function isUrlMode(bytes: Buffer, params: Range | null): boolean {
  const mode = params === null ? null : field(bytes, params.start, params.end, 'mode');
  return stringValue(bytes, mode) === 'url';
}

function has(bytes: Buffer, object: Range | null, key: string): boolean {
  return object !== null && field(bytes, object.start, object.end, key) !== null;
}

function length(range: Range | null): number {
  return range === null ? 0 : range.end - range.start;
}
