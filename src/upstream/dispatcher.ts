import type { Clock } from '../model/clock.ts';
import { CATALOGUE } from '../model/error-catalogue.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Server } from '../model/server.ts';
import { errorCode } from '../protocol/body.ts';
import { nameIn, timeoutOf } from '../protocol/call-time.ts';
import { field } from '../protocol/fields.ts';
import { isClientRequest, LISTEN } from '../protocol/methods.ts';
import type { Histogram, Metric } from '../telemetry/metrics.ts';
import { Call, type CallOwner, type CallTiming } from './calls/call.ts';
import { InputRounds, needsInput, refuseInput } from './calls/input-rounds.ts';
import { OutlierEjection } from './calls/outlier-ejection.ts';
import type { RequestCarrier } from './calls/pending.ts';
import type { Connection } from './connection/connection.ts';
import { asGatewayError } from './connection/failures.ts';
import type { ConnectionHealth } from './health/health-probe.ts';
import type { ClientCatalogs } from './lists/client-catalogs.ts';
import type { ClientConnections } from './pool/client-connections.ts';
import type { ServerContext } from './server-context.ts';
import type { ServerRuns } from './server-runs.ts';
import type { Supervisor } from './supervision/supervisor.ts';

/** Attempts of one call, whatever happens. */
const MAX_ATTEMPTS = 3;
/** F23: a server that asks for patience gets it for so long; beyond that the call fails at once. */
const MAX_PATIENCE_MS = 30_000;

type Verdict = { readonly kind: 'give_up' } | { readonly kind: 'again'; readonly afterMs: number };

const GIVE_UP: Verdict = { kind: 'give_up' };
const AT_ONCE: Verdict = { kind: 'again', afterMs: 0 };

/**
 * Whether a call whose attempt failed is tried again, unseen by the client. What never left the gateway is (F02, F24); what
 * may have run is not, unless the operator said that this server's tools may run twice. `tool` is the server's definition of
 * the called tool, null for other methods or when it is not known.
 */
function decideRetry(error: GatewayError, attempts: number, server: Server, tool: Buffer | null): Verdict {
  if (attempts >= MAX_ATTEMPTS) return GIVE_UP;
  const { outcome, retryAfterMs } = error.data;
  if (error.code === 'OVERLOADED') {
    const patient = retryAfterMs !== undefined && retryAfterMs <= MAX_PATIENCE_MS && attempts > 0;
    return patient ? { kind: 'again', afterMs: retryAfterMs } : GIVE_UP;
  }
  if (outcome === 'REFUSED') return GIVE_UP;
  if (outcome === 'NOT_SENT') return error.code === 'NOT_SENT' && error.data.retryable ? AT_ONCE : GIVE_UP;
  if (error.code !== 'UNKNOWN' || attempts > 1) return GIVE_UP;
  if (server.retry === 'always') return AT_ONCE;
  return server.retry === 'hints' && server.trusted && tool !== null && isRepeatable(tool) ? AT_ONCE : GIVE_UP;
}

/** The tool says that calling it twice is as good as once: `readOnlyHint` or `idempotentHint`. */
function isRepeatable(tool: Buffer): boolean {
  const annotations = field(tool, 0, tool.length, 'annotations');
  if (annotations === null) return false;
  return ['readOnlyHint', 'idempotentHint'].some((hint) => {
    const value = field(tool, annotations.start, annotations.end, hint);
    return value !== null && tool.toString('latin1', value.start, value.end) === 'true';
  });
}

/** F22: a call refused with its session gets one more. */
const MAX_SESSIONS = 2;
/** Blocks till the task has ended, by its definition. */
const TASK_RESULT = 'tasks/result';
const NO_DEADLINE: CallTiming = { timeoutMs: 0, maxTimeoutMs: 0 };

interface DispatcherDeps {
  readonly context: ServerContext;
  readonly connections: ClientConnections;
  readonly runs: ServerRuns;
  readonly shown: ClientCatalogs;
  readonly health: ConnectionHealth;
  readonly supervisor: Supervisor;
  /** Durations of calls by method, in seconds. */
  readonly durations: Metric<Histogram>;
}

/**
 * Brings calls to connections and decides what becomes of attempts that fail. What was never sent goes to the next
 * connection, unseen by the client (F02, F22, F24); what may have run is answered UNKNOWN, unless the operator
 * allowed more. Deadline and cancellation are the call's own and run through all attempts.
 */
export class Dispatcher implements CallOwner {
  readonly #deps: DispatcherDeps;
  readonly #context: ServerContext;
  readonly #clock: Clock;
  readonly #rounds: InputRounds;
  readonly #ejection: OutlierEjection<Call>;
  #lastTiming: CallTiming = NO_DEADLINE;
  readonly #durations = new Map<string, Histogram>();

  constructor(deps: DispatcherDeps) {
    this.#deps = deps;
    this.#context = deps.context;
    const { clock, random } = deps.context.deps;
    this.#clock = clock;
    this.#ejection = new OutlierEjection(clock, callerOf);
    this.#rounds = new InputRounds(clock, random, (call) => this.#dispatch(call));
  }

  call(request: Message, exchange: Exchange): Promise<Outcome> {
    const { server } = this.#context;
    const call = new Call(this, server.name, request, exchange, this.#timing(server, request), this.#clock);
    if (exchange.cancelled === null) this.#dispatch(call);
    else exchange.onCancel?.(exchange.cancelled);
    return call.outcome;
  }

  answered(call: Call, message: Message): void {
    call.mayHaveRun = true;
    this.#deps.health.answered();
    this.#deps.supervisor.proved();
    this.#ejection.answered();
    if (message.kind === 'error' && !call.refreshed && errorCode(message) === CATALOGUE.HEADER_MISMATCH.rpc)
      this.#refresh(call, message);
    else if (needsInput(call, message)) this.#rounds.begin(call, message);
    else call.succeed(message);
  }

  lost(call: Call, error: GatewayError, carrier: RequestCarrier | null): void {
    const { client } = call.exchange;
    if (error.outcome === 'UNKNOWN') call.mayHaveRun = true;
    this.#deps.health.failed(error);
    this.#ejection.failed(call, error);
    const name = call.method === 'tools/call' ? nameIn(call.request) : null;
    const tool = name === null ? null : this.#deps.shown.tool(client, name);
    const verdict = decideRetry(error, call.attempts, this.#context.server, tool);
    if (verdict.kind === 'again' && verdict.afterMs > 0) {
      this.#clock.after(verdict.afterMs, () => this.#dispatch(call));
      return;
    }
    // Not at once: what lost the request may be about to tell that the whole connection is gone, and why.
    queueMicrotask(() => {
      const ended = carrier?.ended ?? null;
      // Neither a refusal nor a connection that ended for its own reason says that the server cannot be reached.
      if (error.code === 'NOT_SENT' && error.data.retryable && ended === null) {
        this.#deps.health.unsent(this.#deps.connections.ready(client));
      }
      const disowned = error.outcome === 'NOT_SENT' && ended?.kind === 'session_lost';
      if (verdict.kind === 'again' || (disowned && call.attempts < MAX_SESSIONS)) this.#dispatch(call);
      else call.fail(afterAttempts(error, call));
    });
  }

  ended(call: Call): void {
    this.#ejection.ended(call);
    const method = isClientRequest(call.method, call.request.era) ? call.method : 'other';
    let series = this.#durations.get(method);
    if (series === undefined) {
      series = this.#deps.durations.of(method, this.#context.name);
      this.#durations.set(method, series);
    }
    series.observe((this.#clock.now() - call.startedAt) / 1000);
  }

  /** Streams have no deadline. The common case makes no object of its own. */
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

  #dispatch(call: Call): void {
    if (call.done) return;
    const out = this.#ejection.refusal(call, call.server);
    if (out !== null) {
      call.fail(out);
      return;
    }
    const connection = this.#deps.connections.ready(call.exchange.client, placedAs(call));
    if (connection === null) void this.#dispatchLater(call);
    else this.#send(connection, call);
  }

  #send(connection: Connection, call: Call): void {
    const refused = call.request.era === connection.era ? null : refuseInput(call, connection.era);
    if (refused === null) connection.send(call);
    else call.fail(refused);
  }

  async #dispatchLater(call: Call): Promise<void> {
    const { connections, runs } = this.#deps;
    const { client } = call.exchange;
    let connection: Connection;
    try {
      connection = await connections.whileWaiting(client, () => runs.connectionFor(client, placedAs(call), call));
    } catch (error) {
      call.fail(asGatewayError(error, call.server));
      return;
    }
    // What goes wrong from here on may have been sent.
    if (!call.done) this.#send(connection, call);
  }

  /** The headers were made from a definition that is out of date: once more with the present one (H6). */
  #refresh(call: Call, refusal: Message): void {
    call.refreshed = true;
    call.mayHaveRun = false;
    this.#deps.shown.refresh(call.exchange.client).then(
      () => this.#dispatch(call),
      () => call.succeed(refusal),
    );
  }
}

function callerOf({ exchange }: Call): string {
  const { sessionId, principal } = exchange.client;
  return sessionId ?? principal.id;
}

/** A task is asked after on its client's first connection, so it has to be begun there. */
function placedAs({ method, exchange }: Call): string {
  return exchange.beginsTask === true ? '' : method;
}

/** The failure with what the caller wants to know of it: whose it is, and how often it was tried. */
function afterAttempts(error: GatewayError, call: Call): GatewayError {
  const { outcome, retryable, retryAfterMs } = error.data;
  return new GatewayError(error.code, error.message, {
    outcome,
    retryable,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    server: call.server,
    attempts: call.attempts,
    cause: error,
  });
}
