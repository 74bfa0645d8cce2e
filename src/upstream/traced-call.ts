import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Server } from '../model/server.ts';
import { LISTEN } from '../protocol/methods.ts';
import { ended, spanOf, traceOf, withTrace } from '../protocol/trace-context.ts';
import type { Tracer } from '../telemetry/tracing.ts';

/** Calls the server within a span of kind `client`, whose `traceparent` the server gets in the request's `_meta`. */
export function tracedCall(
  tracer: Tracer,
  { name: server, transport }: Server,
  request: Message,
  call: (request: Message) => Promise<Outcome>,
): Promise<Outcome> {
  if (request.method === LISTEN) return call(request);
  const { name, attributes } = spanOf(request);
  attributes['trunkline.server'] = server;
  if (transport.type === 'stdio' || transport.type === 'docker') attributes['network.transport'] = 'pipe';
  else if (transport.type !== 'memory') attributes['network.transport'] = 'tcp';
  const span = tracer.begin(name, 'client', attributes, traceOf(request));
  return span === null ? call(request) : ended(span, call(withTrace(request, span.traceparent)));
}
