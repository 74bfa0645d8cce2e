import type { IncomingMessage } from 'node:http';

/** Most headers of a request. */
export const MAX_HEADERS = 200;

/** Headers that decide about access, routing or framing. If one is repeated, two readers may use different values. */
const SINGLE = new Set([
  'host',
  'authorization',
  'origin',
  'content-type',
  'content-encoding',
  'content-length',
  'transfer-encoding',
  'expect',
  'last-event-id',
  'x-forwarded-host',
  'x-forwarded-proto',
]);

/** The name of a header that must not be repeated and was; null for none. */
export function repeatedHeader(request: IncomingMessage): string | null {
  const raw = request.rawHeaders;
  // Node joins repeated names: as many names as lines means that none is repeated.
  let names = 0;
  for (const _ in request.headers) names++;
  if (names * 2 === raw.length) return null;
  const seen = new Set<string>();
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (seen.has(name) && (SINGLE.has(name) || name.startsWith('mcp-'))) return name;
    seen.add(name);
  }
  return null;
}
