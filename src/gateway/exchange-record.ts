import type { Clock } from '../model/clock.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import { bodyLexeme } from '../protocol/body.ts';
import { isClientRequest, LISTEN } from '../protocol/methods.ts';
import { spanOf, traceOf } from '../protocol/trace-context.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Histogram, Metric, Metrics } from '../telemetry/metrics.ts';
import { sessionLabel } from '../telemetry/session-label.ts';
import type { Tracer } from '../telemetry/tracing.ts';

/** Methods of clients' own making share one label: they must not be able to make series. */
const OTHER = '_OTHER';

export interface ExchangeRecordDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent or null: no spans are recorded. */
  readonly tracer?: Tracer | null;
  /** Called for every request that ended, but for streams; `since` is a time of `clock`. Must not throw. */
  readonly ended?: (exchange: Exchange, endpoint: Endpoint, outcome: Outcome, since: number) => void;
}

/**
 * Records what clients asked for and how it ended: in a span of kind `server`, in the durations by method and kind of end
 * (OpenTelemetry semantic conventions for MCP), and in the log. Open streams are no operations and have neither span nor
 * duration.
 */
export class ExchangeRecord {
  readonly #deps: ExchangeRecordDeps;
  readonly #durations: Metric<Histogram>;
  readonly #series = new Map<string, Map<string, Histogram>>();

  constructor(deps: ExchangeRecordDeps) {
    this.#deps = deps;
    const name = 'mcp_server_operation_duration_seconds';
    const labels = ['mcp_method_name', 'error_type'];
    this.#durations = deps.metrics.histogram(name, 'Requests of clients, in seconds.', labels);
  }

  /**
   * The span of an exchange that begins; null where none is recorded. Its parent is `_meta.traceparent`, and the header
   * `traceparent` a link then; without the former the header is the parent.
   */
  span(exchange: Exchange, endpoint: Endpoint): ReturnType<Tracer['begin']> {
    const { tracer } = this.#deps;
    const { request, client } = exchange;
    if (tracer == null || request.method === LISTEN) return null;
    const { traceHeader = null } = exchange;
    const { name, attributes } = spanOf(request);
    attributes['mcp.protocol.version'] = client.revision;
    attributes['url.path'] = endpoint.path;
    const inMeta = traceOf(request);
    const links = inMeta === null || traceHeader === null || traceHeader === inMeta ? [] : [traceHeader];
    const span = tracer.begin(name, 'server', attributes, inMeta ?? traceHeader, links);
    if (span !== null) exchange.trace = span.traceparent;
    return span;
  }

  /**
   * Logs the outcome with request, session and server, so that an operator finds a failure. What a server answered, and what
   * was refused, is logged at `debug` only, because callers could fill the log with it. Nothing that a client wrote becomes
   * part of a line. Hands the outcome back.
   */
  logged(exchange: Exchange, endpoint: Endpoint, outcome: Outcome): Outcome {
    const { logger } = this.#deps;
    if (outcome.kind === 'answer') {
      if (logger.level === 'debug') {
        logger.debug('call_answered', { ...facts(exchange, endpoint.server), kind: outcome.message.kind });
      }
      return outcome;
    }
    const { error } = outcome;
    const refused = error.outcome === 'REFUSED';
    if (refused && logger.level !== 'debug') return outcome;
    const fields = { ...facts(exchange, error.data.server ?? endpoint.server), code: error.code };
    if (refused) logger.debug('call_refused', fields);
    else logger.info('call_failed', { ...fields, outcome: error.outcome, reason: error.message });
    return outcome;
  }

  /** Takes down how long the exchange took that began at `from`, a time of the clock. Hands the outcome back. */
  measured(exchange: Exchange, endpoint: Endpoint, outcome: Outcome, from: number): Outcome {
    if (exchange.request.method === LISTEN) return outcome;
    this.#seriesOf(exchange.request, errorType(outcome)).observe((this.#deps.clock.turnNow() - from) / 1000);
    this.#deps.ended?.(exchange, endpoint, outcome, from);
    return outcome;
  }

  #seriesOf({ method, era }: Message, error: string): Histogram {
    const label = isClientRequest(method, era) ? method : OTHER;
    let byError = this.#series.get(label);
    if (byError === undefined) this.#series.set(label, (byError = new Map()));
    let series = byError.get(error);
    if (series === undefined) byError.set(error, (series = this.#durations.of(label, error)));
    return series;
  }
}

/** Empty for success; the JSON-RPC code otherwise. A server's codes beyond the usual ones are one kind. */
function errorType(outcome: Outcome): string {
  if (outcome.kind === 'failure') return String(outcome.error.rpcCode);
  const { message } = outcome;
  if (message.kind !== 'error') return '';
  const code = bodyLexeme(message, 'code') ?? '';
  return /^-32\d{3}$/.test(code) ? code : OTHER;
}

function facts({ id, request, client }: Exchange, server: string): Record<string, unknown> {
  return {
    request: id,
    ...(client.sessionId === null ? {} : { session: sessionLabel(client.sessionId) }),
    ...(server === '' ? {} : { server }),
    method: isClientRequest(request.method, request.era) ? request.method : OTHER,
  };
}
