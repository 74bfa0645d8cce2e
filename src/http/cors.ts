import type { IncomingMessage, ServerResponse } from 'node:http';

const ALLOWED_HEADER =
  /^(?:accept|authorization|content-type|last-event-id|traceparent|tracestate|baggage|mcp-[a-z0-9-]{1,100})$/;
const ALWAYS =
  'Content-Type, Accept, Authorization, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name';

/** Lets pages of this origin read the answer. The origin must have been allowed by name; there is no wildcard. */
export function grantCors(response: ServerResponse, origin: string): void {
  response.setHeader('Access-Control-Allow-Origin', origin);
  response.setHeader('Access-Control-Expose-Headers', 'Mcp-Session-Id, WWW-Authenticate, Retry-After');
  response.setHeader('Vary', 'Origin');
}

export function isPreflight(request: IncomingMessage): boolean {
  return request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
}

/** Answers a preflight from an allowed origin. `Mcp-Param-*` names cannot be listed, so what is asked for is echoed. */
export function answerPreflight(
  request: IncomingMessage,
  response: ServerResponse,
  origin: string,
  allow: string,
): void {
  const asked = (request.headers['access-control-request-headers'] ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => ALLOWED_HEADER.test(name));
  response.writeHead(204, {
    'Access-Control-Allow-Origin': origin,
    'Access-Control-Allow-Methods': allow,
    'Access-Control-Allow-Headers': [ALWAYS, ...asked.slice(0, 64)].join(', '),
    'Access-Control-Max-Age': '600',
    Vary: 'Origin, Access-Control-Request-Headers',
  });
  response.end();
}
