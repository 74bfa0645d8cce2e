import { CallAttempts } from '../model/call-attempts.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import { CATALOGUE } from '../model/error-catalogue.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError, NoLease, OwnedElsewhere } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Server } from '../model/server.ts';
import { loginAdvice } from '../model/server-state.ts';
import { errorCode, nameIn, timeoutOf } from '../protocol/body.ts';
import { field } from '../protocol/fields.ts';
import { isClientRequest, LISTEN } from '../protocol/methods.ts';
import { errorLabel, errorTypeOf } from '../protocol/trace-context.ts';
import { type Histogram, type Metric, OTHER } from '../telemetry/metrics.ts';
import { Call, type CallOwner, type CallTiming } from './calls/call.ts';
import { InputRounds, needsInput, refuseInput } from './calls/input-rounds.ts';
import { mirrorsAnew } from './calls/outgoing-request.ts';
import { OutlierEjection } from './calls/outlier-ejection.ts';
import type { RequestCarrier } from './calls/pending.ts';
import { Attempt } from './connection/attempt.ts';
import type { Connection } from './connection/connection.ts';
import { asGatewayError } from './connection/failures.ts';
import type { ClientCatalogs } from './lists/client-catalogs.ts';
import type { ServerContext } from './server-context.ts';
import { refusalOf } from './transport/http-refusal.ts';
import type { NodeShared, UpstreamParts } from './upstream-parts.ts';

/** Attempts per call, including the first. */
const MAX_ATTEMPTS = 3;

const AT_ONCE = 0;
const OUTDATED_HEADERS = {
  outcome: 'REFUSED',
  message: 'the server refused headers that were made from an outdated definition of the tool',
} as const;

/**
 * Milliseconds until the next attempt of a call; null for no further attempt. A call of which nothing was sent is retried
 * (F02, F24); one that may have run is not, unless the operator allowed it. `tool`: the server's definition, null if unknown.
 */
function retryAfter(error: GatewayError, attempts: number, server: Server, tool: Buffer | null): number | null {
  if (attempts >= MAX_ATTEMPTS) return null;
  const { outcome, retryAfterMs } = error.data;
  // The transport gives no delay that is too long to wait for (F23).
  if (error.code === 'OVERLOADED') return attempts > 0 ? (retryAfterMs ?? null) : null;
  if (outcome === 'REFUSED') return null;
  if (outcome === 'NOT_SENT') return error.code === 'NOT_SENT' && error.data.retryable ? AT_ONCE : null;
  if (error.code !== 'UNKNOWN' || attempts > 1) return null;
  if (server.retry === 'always') return AT_ONCE;
  return server.retry === 'hints' && server.trusted && tool !== null && isRepeatable(tool) ? AT_ONCE : null;
}

/** Whether the tool declares that a repeated call is harmless: `readOnlyHint` or `idempotentHint`. */
function isRepeatable(tool: Buffer): boolean {
  const annotations = field(tool, 0, tool.length, 'annotations');
  if (annotations === null) return false;
  return ['readOnlyHint', 'idempotentHint'].some((hint) => {
    const value = field(tool, annotations.start, annotations.end, hint);
    return value !== null && tool.toString('latin1', value.start, value.end) === 'true';
  });
}

/** F22: a call whose session the server has disowned is sent once more, on a new session. */
const MAX_SESSIONS = 2;
/** By definition the server answers it only when the task has ended. */
const TASK_RESULT = 'tasks/result';
const NO_DEADLINE: CallTiming = { timeoutMs: 0, maxTimeoutMs: 0 };

/** How long a failure to open a connection is remembered. */
export const KEPT_MS = 10_000;
/** Session keys remembered; above this the oldest is dropped. */
const MAX_KEYS = 1_024;

/** Session keys whose connection could not be opened recently; other connections of the server may be up. */
export class OpenFailures {
  readonly #clock: Clock;
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  failed(key: string): void {
    this.opened(key);
    this.#until.set(key, this.#clock.now() + KEPT_MS);
    const [oldest] = this.#until.keys();
    if (this.#until.size > MAX_KEYS && oldest !== undefined) this.#until.delete(oldest);
  }

  opened(key: string): void {
    this.#until.delete(key);
  }

  has(key: string): boolean {
    const until = this.#until.get(key);
    if (until !== undefined && this.#clock.now() >= until) this.opened(key);
    return this.#until.has(key);
  }
}

/**
 * Assigns calls to connections and decides whether a failed attempt is retried (`retryAfter`). Deadline and cancellation
 * belong to the call and span all its attempts.
 */
export class Dispatcher implements CallOwner {
  readonly #parts: UpstreamParts;
  readonly #context: ServerContext;
  readonly #clientCatalogs: ClientCatalogs;
  readonly #calls: NodeShared['calls'];
  readonly #openFailures: OpenFailures;
  readonly #clock: Clock;
  readonly #rounds: InputRounds;
  readonly #ejection: OutlierEjection<Call>;
  #lastTiming: CallTiming = NO_DEADLINE;
  /** Durations of calls, in seconds. */
  readonly #durations: Metric<Histogram>;
  /** Series by method and error type. */
  readonly #durationsOf = new Map<string, Map<string, Histogram>>();

  constructor(parts: UpstreamParts, clientCatalogs: ClientCatalogs, calls: NodeShared['calls']) {
    this.#parts = parts;
    this.#calls = calls;
    this.#context = parts.context;
    this.#clientCatalogs = clientCatalogs;
    const { clock, random, metrics } = parts.context.deps;
    this.#clock = clock;
    this.#openFailures = new OpenFailures(clock);
    this.#durations = metrics.histogram('mcp_client_operation_duration_seconds', 'Calls to servers, in seconds.', [
      'mcp_method_name',
      'error_type',
      'server',
    ]);
    this.#ejection = new OutlierEjection(clock, callerOf);
    this.#rounds = new InputRounds(clock, random, (call) => this.#dispatch(call));
  }

  /** `trace`: the `traceparent` of the call's span. */
  call(request: Message, exchange: Exchange, trace: string | null): Promise<Outcome> {
    const { server } = this.#context;
    const call = new Call(this, server.name, request, exchange, this.#timing(server, request), this.#clock);
    if (server.caller !== undefined) call.client = this.#context.scopeClient(exchange.client);
    call.trace = trace;
    this.#calls.count++;
    if (exchange.cancelled === null) this.#dispatch(call);
    else exchange.onCancel?.(exchange.cancelled);
    return call.outcome;
  }

  answered(call: Call, message: Message): void {
    call.mayHaveRun = true;
    this.#parts.health.callAnswered();
    this.#parts.supervisor.markHealthy();
    this.#ejection.answered();
    if (isMismatch(call, message)) this.#refresh(call, message);
    else if (needsInput(call, message)) this.#rounds.begin(call, message);
    else call.succeed(message);
  }

  lost(call: Call, error: GatewayError, carrier: RequestCarrier | null): void {
    const { client } = call;
    if (error.outcome === 'UNKNOWN') call.mayHaveRun = true;
    this.#parts.health.callFailed(error);
    this.#ejection.failed(call, error);
    const name = call.method === 'tools/call' ? nameIn(call.request) : null;
    const tool = name === null ? null : this.#clientCatalogs.tool(client, name);
    const againMs = retryAfter(error, call.attempts, this.#context.server, tool);
    if (againMs !== null && againMs > AT_ONCE) {
      this.#failed(call, error, carrier);
      this.#clock.after(againMs, () => this.#dispatchAgain(call));
      return;
    }
    // Deferred: the end of the whole connection, with its reason, may be reported right after this loss.
    queueMicrotask(() => {
      const ended = carrier?.closedReason ?? null;
      // A refusal, or a connection that ended for a known reason, does not show that the server is unreachable.
      if (error.code === 'NOT_SENT' && error.data.retryable && ended === null) {
        this.#parts.health.callUnsent(this.#parts.connections.ready(client));
      }
      const disowned = error.outcome === 'NOT_SENT' && ended?.kind === 'session_lost';
      if (againMs !== null || (disowned && call.attempts < MAX_SESSIONS)) {
        this.#failed(call, error, carrier);
        this.#dispatchAgain(call);
      } else call.fail(advised(afterAttempts(error, call), this.#context.server));
    });
  }

  ended(call: Call, outcome: Outcome): void {
    this.#calls.count--;
    this.#ejection.ended(call);
    const method = isClientRequest(call.method, call.request.era) ? call.method : OTHER;
    let byError = this.#durationsOf.get(method);
    if (byError === undefined) this.#durationsOf.set(method, (byError = new Map()));
    const error = errorLabel(errorTypeOf(outcome));
    let series = byError.get(error);
    if (series === undefined) byError.set(error, (series = this.#durations.of(method, error, this.#context.name)));
    series.observe((this.#clock.turnNow() - call.startedAt) / 1000);
  }

  /** Streams have no deadline. Equal timings share one object. */
  #timing(server: Server, request: Message): CallTiming {
    if (request.method === LISTEN) return NO_DEADLINE;
    const { maxTimeoutMs } = this.#context.limits;
    if (request.method === TASK_RESULT) return { timeoutMs: maxTimeoutMs, maxTimeoutMs };
    const timeoutMs = timeoutOf(server, request);
    const last = this.#lastTiming;
    if (last.timeoutMs === timeoutMs && last.maxTimeoutMs === maxTimeoutMs) return last;
    this.#lastTiming = { timeoutMs, maxTimeoutMs };
    return this.#lastTiming;
  }

  /** Records a failed attempt that is followed by another one. */
  #failed(
    { exchange, startedAt }: Call,
    error: Pick<GatewayError, 'outcome' | 'message'>,
    carrier: RequestCarrier | null,
  ) {
    exchange.attempts ??= new CallAttempts();
    exchange.attempts.add(startedAt, this.#clock.turnNow(), error, carrier);
  }

  #dispatchAgain(call: Call): void {
    if (!call.done) call.exchange.attempts?.begins(this.#clock.turnNow());
    this.#dispatch(call);
  }

  #dispatch(call: Call): void {
    if (call.done) return;
    const out = this.#ejection.refusal(call, call.server);
    if (out !== null) {
      call.fail(out);
      return;
    }
    const connection = this.#parts.connections.ready(call.client, placedAs(call));
    if (connection === null) void this.#dispatchLater(call);
    else this.#send(connection, call);
  }

  #send(connection: Connection, call: Call): void {
    const refused = call.request.era === connection.era ? null : refuseInput(call, connection.era);
    if (refused === null) connection.send(call);
    else call.fail(refused);
  }

  async #dispatchLater(call: Call): Promise<void> {
    let connection: Connection;
    try {
      connection = await this.#parts.connections.whileWaiting(call.client, () => this.#connectionFor(call));
    } catch (error) {
      call.fail(advised(asGatewayError(error, call.server), this.#context.server));
      return;
    }
    // From here on the request may have been sent.
    if (!call.done) this.#send(connection, call);
  }

  /** Waits until the server is up, then acquires the client's connection. Rejects with GatewayError. */
  async #connectionFor(call: Call): Promise<Connection> {
    const { connections, health, supervisor } = this.#parts;
    const { client } = call;
    const up = supervisor.readyFor(client);
    if (!supervisor.up) supervisor.prioritize(call);
    await up;
    const attempt = new Attempt();
    attempt.prioritize(call);
    try {
      const connection = await connections.acquire(client, placedAs(call), attempt);
      this.#openFailures.opened(connection.key);
      return connection;
    } catch (cause) {
      const error = asGatewayError(cause, call.server);
      const notIts = error instanceof OwnedElsewhere || error instanceof NoLease;
      const ours = error.code === 'OVERLOADED' || error.code === 'CANCELLED' || notIts;
      if (!ours) {
        const key = connections.keyOf(client);
        if (key !== null) this.#openFailures.failed(key);
        void health.openFailed(error, supervisor);
      }
      throw error;
    }
  }

  /** Whether the last attempt to open this client's connection failed recently. */
  failsFor(client: ClientProfile): boolean {
    const key = this.#parts.connections.keyOf(client);
    return key !== null && this.#openFailures.has(key);
  }

  /** Fetches the current definition of the tool; if the headers were made from another one, sends the call again (H6). */
  #refresh(call: Call, refusal: Message): void {
    call.refreshed = true;
    this.#clientCatalogs.refresh(call.client).then(
      () => {
        // With the same headers, the error may be the answer of a server that has run the call.
        if (!mirrorsAnew(call, this.#parts)) return call.succeed(refusal);
        this.#failed(call, OUTDATED_HEADERS, null);
        this.#dispatchAgain(call);
      },
      () => call.succeed(refusal),
    );
  }
}

/** Whether the server refused headers that mirror the call, and they may have been made from an outdated definition. */
function isMismatch({ mirrored, refreshed }: Call, answer: Message): boolean {
  if (answer.kind !== 'error' || mirrored === null || refreshed) return false;
  return errorCode(answer) === CATALOGUE.HEADER_MISMATCH.rpc;
}

function callerOf({ exchange }: Call): string {
  const { sessionId, principal } = exchange.client;
  return sessionId ?? principal.id;
}

/** A task starts on the client's first connection, because its follow-up requests go there. */
function placedAs({ method, exchange }: Call): string {
  return exchange.beginsTask === true ? '' : method;
}

/** The error with the server's name and the number of attempts added. */
function afterAttempts(error: GatewayError, call: Call): GatewayError {
  const { server, attempts } = call;
  return new GatewayError(error.code, error.message, { ...error.data, server, attempts, cause: error });
}

/** Adds login advice to an AUTH_REQUIRED error, unless the server forbids the request or the advice is there already. */
function advised(error: GatewayError, { name, transport, caller }: Server): GatewayError {
  const advice = loginAdvice(name, transport, caller?.owner);
  const forbidden = isForbidden(error) || (error.cause instanceof GatewayError && isForbidden(error.cause));
  if (error.code !== 'AUTH_REQUIRED' || forbidden || error.forCallers.includes(advice)) return error;
  const forCallers = `${error.forCallers}; ${advice}`;
  return new GatewayError(error.code, `${error.message}; ${advice}`, { ...error.data, cause: error, forCallers });
}

/** The server forbids this user the request (403): another login would not help. */
function isForbidden(error: GatewayError): boolean {
  const refusal = refusalOf(error);
  return refusal?.status === 403 && refusal.challenge?.includes('insufficient_scope') !== true;
}
