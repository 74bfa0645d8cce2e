import type { RequestContext } from './request-context.ts';

const ALLOWED_HEADER =
  /^(?:accept|authorization|content-type|last-event-id|traceparent|tracestate|baggage|mcp-[!#$%&'*+\-.^_`|~0-9a-z]{1,100})$/;
const ALWAYS =
  'Content-Type, Accept, Authorization, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name';

/** Headers that let pages of this origin read the answer. The origin was allowed by name; there is no wildcard. */
export function corsHeaders(origin: string): readonly string[] {
  return [
    'Access-Control-Allow-Origin',
    origin,
    'Access-Control-Expose-Headers',
    'Mcp-Session-Id, WWW-Authenticate, Retry-After',
    'Vary',
    'Origin',
  ];
}

export function isPreflight(context: RequestContext): boolean {
  return context.method === 'OPTIONS' && context.headers['access-control-request-method'] !== undefined;
}

/** Answers a preflight from an allowed origin. `Mcp-Param-*` names cannot be listed, so requested names are echoed. */
export function answerPreflight(context: RequestContext, origin: string, allow: string): void {
  const asked = (context.header('access-control-request-headers') ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => ALLOWED_HEADER.test(name));
  context.empty(204, [
    'Access-Control-Allow-Origin',
    origin,
    'Access-Control-Allow-Methods',
    allow,
    'Access-Control-Allow-Headers',
    [ALWAYS, ...asked.slice(0, 64)].join(', '),
    'Access-Control-Max-Age',
    '600',
    'Vary',
    'Origin, Access-Control-Request-Headers',
  ]);
}
