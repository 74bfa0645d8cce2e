import { GatewayError } from '../../model/gateway-error.ts';
import { request } from '../../protocol/compose.ts';
import { discoverRequest } from '../../protocol/handshake-results.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError } from '../connection/failures.ts';
import type { ServerContext } from '../server-context.ts';
import { failureClass } from './failure-class.ts';

/** Calls in a row that failed. */
export const FAILURES_TILL_UNHEALTHY = 3;
/** Attempts in a row that could not even be sent; then a remote server counts as gone. */
const UNSENT_TILL_GONE = 3;

/** Asks whether the server is there, in the way of the connection's era. Any answer will do. Rejects with GatewayError. */
export async function ping(connection: Connection, timeoutMs: number): Promise<void> {
  const { era, profile } = connection;
  const message = era === 'stateless' ? discoverRequest('0', profile) : request('ping', '0', null, 'stateful');
  await connection.ask(message, timeoutMs);
}

/**
 * The health of a server that is up, from two witnesses: its calls and the probe. Each can find it unhealthy whatever the
 * other says, and only an answer to the same kind of question makes up for it. Each turn is reported once. Deadlines in a
 * row lead to a ping, and calls in a row that could not be sent to the end of the connection.
 */
export class ServerHealth {
  readonly #context: ServerContext;
  #unsent = 0;
  #failedCalls = 0;
  #callReason: string | null = null;
  #probeReason: string | null = null;

  constructor(context: ServerContext) {
    this.#context = context;
  }

  /** null: it is healthy. */
  get reason(): string | null {
    return this.#callReason ?? this.#probeReason;
  }

  /** Whatever the answer is: what a tool says went wrong is no failure of its server (S3.8). */
  callAnswered(): void {
    this.#unsent = 0;
    if (this.#failedCalls === 0) return;
    this.#failedCalls = 0;
    this.#found(null, this.#probeReason);
  }

  callFailed(error: GatewayError): void {
    if (error.code === 'OVERLOADED' || failureClass(error) === 'abort') return;
    // A refusal is not: the server was there to say no.
    if (error.outcome === 'NOT_SENT' && !error.data.retryable) return;
    this.#callsFailed(this.#failedCalls + 1, error.message);
  }

  /** null: the probe was answered. */
  probed(failure: string | null): void {
    this.#found(this.#callReason, failure);
  }

  /** A new run of the server: nothing of the last one counts. */
  restarted(): void {
    this.#failedCalls = 0;
    this.#callReason = null;
    this.#probeReason = null;
  }

  /** A process says by its exit that it is gone; of a remote server only failing calls do. */
  callUnsent(connection: Connection | null): void {
    const { name: server, local, events } = this.#context;
    if (local || ++this.#unsent < UNSENT_TILL_GONE) return;
    this.#unsent = 0;
    // Not ended for the server: should it come back with the session, so do we.
    const error = new GatewayError('NOT_SENT', `${server} cannot be reached`, { server });
    if (connection !== null) events.replace(connection, error, 'shutdown');
  }

  /** F05: a server that answers a ping is slow, and unhealthy all the same; one that does not is hung, and replaced. */
  async probe(connection: Connection): Promise<void> {
    const { name: server, times, events } = this.#context;
    this.#callsFailed(FAILURES_TILL_UNHEALTHY, `${server} did not answer in time`);
    try {
      await ping(connection, times.pingMs);
    } catch (cause) {
      const error = asGatewayError(cause, server);
      if (error.code === 'TIMEOUT' && connection.live) events.replace(connection, error, 'remove');
    }
  }

  #callsFailed(count: number, reason: string): void {
    this.#failedCalls = count;
    if (count >= FAILURES_TILL_UNHEALTHY) this.#found(`${count} calls in a row failed: ${reason}`, this.#probeReason);
  }

  #found(callReason: string | null, probeReason: string | null): void {
    const before = this.reason;
    this.#callReason = callReason;
    this.#probeReason = probeReason;
    if ((this.reason === null) !== (before === null)) this.#context.events.healthTurned(this.reason);
  }
}
