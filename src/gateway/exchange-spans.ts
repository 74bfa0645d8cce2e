import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { Outcome } from '../model/outcome.ts';
import { LISTEN } from '../protocol/methods.ts';
import { ended, spanOf, traceOf } from '../protocol/trace-context.ts';
import type { Tracer } from '../telemetry/tracing.ts';

/**
 * Runs the exchange within a span of kind `server`. Its parent is `_meta.traceparent`, and the header `traceparent` a link
 * then; without the former the header is the parent. Open streams are no operations and have no span.
 */
export function receive(
  tracer: Tracer,
  exchange: Exchange,
  endpoint: Endpoint,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const { request, client, traceHeader = null } = exchange;
  if (request.method === LISTEN) return run();
  const { name, attributes } = spanOf(request);
  attributes['mcp.protocol.version'] = client.revision;
  attributes['url.path'] = endpoint.path;
  const inMeta = traceOf(request);
  const links = inMeta === null || traceHeader === null || traceHeader === inMeta ? [] : [traceHeader];
  const span = tracer.begin(name, 'server', attributes, inMeta ?? traceHeader, links);
  if (span === null) return run();
  exchange.trace = span.traceparent;
  return ended(span, run());
}
