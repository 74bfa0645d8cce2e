import type { Clock } from '../model/clock.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import type { Outcome } from '../model/outcome.ts';
import { printable } from '../model/printable.ts';
import { bodyString } from '../protocol/body.ts';
import { LISTEN } from '../protocol/methods.ts';
import { errorTypeOf, spanOf, traceOf } from '../protocol/trace-context.ts';
import type { CallLog, EndedCall } from '../telemetry/call-log.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { sessionLabel } from '../telemetry/session-label.ts';
import type { Tracer } from '../telemetry/tracing.ts';
import { OperationDurations } from './operation-durations.ts';

/** Log lines of calls that did not fail: enough for people to read along, and less than 1 % of a processor. */
const LINES_PER_SECOND = 50;
/** Log lines of failed calls of each server: one that is down fails every call. */
const FAILURES_PER_SECOND = 5;
/** Servers whose lines are counted, among them removed ones. */
const MAX_SERVERS = 10_000;
const NAMED_BY: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['resources/subscribe', 'uri'],
  ['resources/unsubscribe', 'uri'],
]);

export interface ExchangeRecordDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent or null: no spans are recorded. */
  readonly tracer?: Tracer | null;
  readonly calls: CallLog;
  /** Called for every request that ended, except streams; `since`: its start, a time of `clock`. Must not throw. */
  readonly ended?: (exchange: Exchange, endpoint: Endpoint, outcome: Outcome, since: number) => void;
}

/**
 * Records requests of clients and their outcomes: in a span of kind `server`, in the durations by method and error type
 * (OpenTelemetry semantic conventions for MCP), and in the log. Listen streams are not operations and are not recorded.
 */
export class ExchangeRecord {
  readonly #deps: ExchangeRecordDeps;
  readonly #durations: OperationDurations;
  readonly #lines = new LineBudget(LINES_PER_SECOND);
  /** Budgets for failed calls, by server. */
  readonly #failures = new Map<string, LineBudget>();

  constructor(deps: ExchangeRecordDeps) {
    this.#deps = deps;
    this.#durations = new OperationDurations(deps.metrics);
  }

  /**
   * Begins the span of an exchange; null if none is recorded. The parent is `_meta.traceparent`, with the header `traceparent`
   * as a link; without the former, the header is the parent.
   */
  span(exchange: Exchange, endpoint: Endpoint): ReturnType<Tracer['begin']> {
    const { tracer } = this.#deps;
    const { request, client } = exchange;
    if (tracer == null || request.method === LISTEN) return null;
    const { traceHeader = null } = exchange;
    const inMeta = traceOf(request);
    const span = tracer.begin('server', inMeta ?? traceHeader);
    if (span === null) return null;
    const { name, attributes } = spanOf(request);
    attributes['mcp.protocol.version'] = client.revision;
    attributes['url.path'] = endpoint.path;
    attributes['jsonrpc.request.id'] = request.id.startsWith('"') ? request.id.slice(1, -1) : request.id;
    // The session's id itself is a secret.
    if (client.sessionId !== null) attributes['mcp.session.id'] = sessionLabel(client.sessionId);
    exchange.trace = span.traceparent;
    const links = inMeta === null || traceHeader === null || traceHeader === inMeta ? [] : [traceHeader];
    return span.describe(name, attributes, links);
  }

  /**
   * Records an exchange that began at `from`, a time of the clock: its duration, the call log, and a line of the log, within a
   * budget per second. Failed calls have a budget for each server. At `debug` every call has a line. Returns the outcome, also
   * after a defect in recording.
   */
  ended(exchange: Exchange, endpoint: Endpoint, outcome: Outcome, from: number): Outcome {
    if (exchange.request.method === LISTEN) return outcome;
    try {
      this.#record(exchange, endpoint, outcome, from);
    } catch (cause) {
      this.#deps.logger.error('exchange_not_recorded', { request: exchange.id, error: cause });
    }
    return outcome;
  }

  #record(exchange: Exchange, endpoint: Endpoint, outcome: Outcome, from: number): void {
    const { clock, calls } = this.#deps;
    const ms = clock.turnNow() - from;
    const error = errorTypeOf(outcome);
    const call = callOf(exchange, endpoint, outcome, error, ms, from, clock.wall() - ms);
    this.#durations.observe(exchange, call.server, error, ms / 1000);
    calls.push(call);
    this.#log(call, outcome);
    this.#deps.ended?.(exchange, endpoint, outcome, from);
  }

  #log(call: EndedCall, outcome: Outcome): void {
    const { logger, clock, calls } = this.#deps;
    const failure = outcome.kind === 'failure' ? outcome.error : null;
    const failed = failure !== null && failure.outcome !== 'REFUSED';
    if (!failed && !logger.takesCalls) return;
    const lines = failed ? this.#failuresOf(call.server ?? '') : this.#lines;
    const isDebug = logger.level === 'debug';
    const isDue = (isDebug && !failed) || lines.take(Math.floor(clock.turnNow() / 1000));
    if (!isDue && !isDebug) return;
    const fields = {
      ...lineOf(call, calls),
      ...(failure === null ? {} : { code: failure.code }),
      leftOut: isDue ? lines.leftOut() : null,
    };
    if (!failed) logger.call(fields);
    else if (isDue) logger.info('call_failed', fields);
    else logger.debug('call_failed', fields);
  }

  #failuresOf(server: string): LineBudget {
    const known = this.#failures.get(server) ?? new LineBudget(FAILURES_PER_SECOND);
    // Names of servers that were removed.
    if (this.#failures.size > MAX_SERVERS) this.#failures.clear();
    this.#failures.set(server, known);
    return known;
  }
}

/** The name or URI in a request for which no target was found. */
function askedOf({ request }: Exchange): string | null {
  const key = NAMED_BY.get(request.method);
  return key === undefined ? null : bodyString(request, key);
}

function callOf(
  exchange: Exchange,
  endpoint: Endpoint,
  outcome: Outcome,
  error: string | null,
  ms: number,
  from: number,
  startedAt: number,
): EndedCall {
  const { request, client, target, sentAt, servedBy, attempts, trace } = exchange;
  const failure = outcome.kind === 'failure' ? outcome.error : null;
  const asked = target === undefined ? askedOf(exchange) : null;
  const name = typeof target?.name === 'string' ? target.name : null;
  const how = failure === null ? 'RESULT' : failure.outcome;
  const reason = failure === null ? null : failure.message;
  return {
    request: exchange.id,
    startedAt,
    ms,
    // A request that joins an equal one in flight was sent before it came.
    waitedMs: sentAt === undefined ? null : Math.max(0, sentAt - from),
    method: request.method,
    endpoint: endpoint.path,
    client,
    server: failure?.data.server ?? target?.server ?? (endpoint.server === '' ? null : endpoint.server),
    name: name === '' ? null : name,
    ...(asked === null ? {} : { asked }),
    outcome: how,
    error,
    reason,
    requestBytes: request.bytes.length,
    answerBytes: outcome.kind === 'answer' ? outcome.message.bytes.length : 0,
    servedBy: servedBy ?? null,
    tries: attempts?.count ?? (sentAt === undefined ? 0 : 1),
    attempts: attempts?.upTo(from, ms, { node: servedBy ?? null, outcome: how, reason }) ?? null,
    trace: trace === undefined ? null : trace.split('-')[1]!,
  };
}

/** The fields of a call in the log. */
function lineOf(
  { request, method, client, server, name, asked, outcome, error, reason, ms, ...call }: EndedCall,
  calls: CallLog,
): object {
  return {
    request,
    session: client.sessionId === null ? null : sessionLabel(client.sessionId),
    client: calls.clientName(client.info),
    principal: client.principal.id,
    endpoint: call.endpoint,
    server,
    method: printable(method.slice(0, 64)),
    name: name === null ? null : calls.shown(name, 128),
    ...(asked === undefined ? {} : { asked: calls.shown(asked, 128) }),
    outcome,
    error,
    reason: reason === null ? null : calls.shown(reason, 512),
    ms: Math.round(ms * 10) / 10,
    requestBytes: call.requestBytes,
    answerBytes: call.answerBytes,
    servedBy: call.servedBy,
    trace: call.trace,
  };
}

/** Limits the lines in each second. */
class LineBudget {
  readonly #perSecond: number;
  #second = 0;
  #taken = 0;
  #leftOut = 0;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Takes a line of this second; false if none is left. */
  take(second: number): boolean {
    if (second !== this.#second) {
      this.#second = second;
      this.#taken = 0;
    }
    if (++this.#taken <= this.#perSecond) return true;
    this.#leftOut++;
    return false;
  }

  /** The number of refused lines since the last call; null for none. */
  leftOut(): number | null {
    const count = this.#leftOut;
    this.#leftOut = 0;
    return count === 0 ? null : count;
  }
}
