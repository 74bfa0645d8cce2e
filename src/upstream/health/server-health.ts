import { GatewayError } from '../../model/gateway-error.ts';
import { type ServerState, UP } from '../../model/server-state.ts';
import { request } from '../../protocol/compose.ts';
import { discoverRequest } from '../../protocol/handshake-results.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError } from '../connection/failures.ts';
import type { ServerContext } from '../server-context.ts';
import { refusalOf } from '../transport/http-refusal.ts';
import { failureClass } from './failure-class.ts';

/** Calls in a row that failed. */
export const FAILURES_TILL_UNHEALTHY = 3;
/** Attempts in a row that could not even be sent; then a remote server counts as gone. */
const UNSENT_TILL_GONE = 3;

/** Asks whether the server is there, in the way of the connection's era. Any answer will do. Rejects with GatewayError. */
async function ping(connection: Connection, timeoutMs: number): Promise<void> {
  const { era, profile } = connection;
  const message = era === 'stateless' ? discoverRequest('0', profile) : request('ping', '0', null, 'stateful');
  await connection.ask(message, timeoutMs);
}

/**
 * The health of a server that is up, from two witnesses: its calls and a probe. Each can find it unhealthy whatever the
 * other says, and only an answer to the same kind of question makes up for it. Each turn is reported once. Deadlines in a
 * row lead to a ping, and calls in a row that could not be sent to the end of the connection.
 *
 * The probe asks unused connections whether they are still there (S3.11). A connection over which calls are under way, or
 * were answered within the interval, is not asked: the calls tell as much. The first question without an answer makes the
 * server unhealthy, the second ends the connection.
 */
export class ServerHealth {
  readonly #context: ServerContext;
  readonly #pool: { connections(): Iterable<Connection> };
  #unsent = 0;
  #failedCalls = 0;
  #callReason: string | null = null;
  #probeReason: string | null = null;
  /** Which failed to answer the last probe. */
  #suspects = new Set<Connection>();
  #next = 0;
  #disarm: (() => void) | null = null;
  /** Raised whenever probing begins or ends: what a probe from before finds does not count. */
  #run = 0;

  constructor(context: ServerContext, pool: { connections(): Iterable<Connection> }) {
    this.#context = context;
    this.#pool = pool;
  }

  /** null: it is healthy. */
  get reason(): string | null {
    return this.#callReason ?? this.#probeReason;
  }

  /** Nothing from before counts in the new state. */
  moved(to: ServerState): void {
    this.#failedCalls = 0;
    this.#callReason = null;
    this.#probeReason = null;
    if (UP.has(to)) this.beginProbing();
    else this.#endProbing();
  }

  /** Any answer counts: an error that a tool reports is no failure of its server (S3.8). */
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
  async unresponsive(connection: Connection): Promise<void> {
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

  /** The server is up, or how often it is asked has changed. */
  beginProbing(): void {
    this.#endProbing();
    this.#arm(this.#everyMs);
  }

  #endProbing(): void {
    this.#run++;
    this.#disarm?.();
    this.#disarm = null;
    this.#suspects.clear();
  }

  /** How long nothing may be heard of a connection before it is asked; 0 for never. */
  get #everyMs(): number {
    return this.#context.server.probeMs;
  }

  #arm(delayMs: number): void {
    if (delayMs <= 0) return;
    this.#disarm = this.#context.deps.clock.after(delayMs, () => void this.#probe());
  }

  async #probe(): Promise<void> {
    const run = this.#run;
    const { local, times, events } = this.#context;
    const asked = this.#idle();
    const failures = await Promise.all(asked.map((connection) => this.#ask(connection)));
    if (run !== this.#run) return;
    const suspects = new Set<Connection>();
    let failure: GatewayError | null = null;
    for (const [i, connection] of asked.entries()) {
      const error = failures[i] ?? null;
      if (error === null) continue;
      failure = error;
      if (this.#suspects.has(connection)) events.replace(connection, error, local ? 'remove' : 'shutdown');
      else suspects.add(connection);
      // The handler may have ended the run.
      if (run !== this.#run) return;
    }
    this.#suspects = suspects;
    if (asked.length > 0) this.probed(failure?.message ?? null);
    this.#arm(suspects.size > 0 ? Math.min(times.pingMs, this.#everyMs) : this.#everyMs);
  }

  /** Which to ask: suspects first, else all processes, or one connection after the other. */
  #idle(): Connection[] {
    // Of one that nothing is sent to, a node of a cluster that lost its lease perhaps, nothing is to be learned (F28).
    const all = [...this.#pool.connections()].filter(({ ready, transport }) => ready && transport.silent !== true);
    const idle = all.filter((connection) => connection.inFlight === 0 && !this.#answeredLately(connection));
    const again = idle.filter((connection) => this.#suspects.has(connection));
    if (again.length > 0) return again;
    // Each process may hang for itself.
    if (this.#context.ownProcess) return idle;
    // One connection's answers count for the server, and so does the probe.
    return idle.length === 0 || idle.length < all.length ? [] : [idle[this.#next++ % idle.length]!];
  }

  #answeredLately({ use }: Connection): boolean {
    return (
      use.requests > 0 && use.consecutiveErrors === 0 && this.#context.deps.clock.now() - use.lastUsedAt < this.#everyMs
    );
  }

  /** Why it seems to be gone; null for an answer, and where calls or the transport have shown more meanwhile. */
  async #ask(connection: Connection): Promise<GatewayError | null> {
    try {
      await ping(connection, this.#context.times.pingMs);
      return null;
    } catch (cause) {
      const error = asGatewayError(cause, this.#context.name);
      if (!connection.live || connection.inFlight > 0 || this.#answeredLately(connection)) return null;
      const status = refusalOf(error)?.status ?? 0;
      return status > 0 && status < 500 ? null : error;
    }
  }
}
