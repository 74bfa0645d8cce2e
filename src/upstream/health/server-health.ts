import { GatewayError } from '../../model/gateway-error.ts';
import { type ServerState, UP } from '../../model/server-state.ts';
import { PING } from '../../protocol/compose.ts';
import { discoverRequest } from '../../protocol/handshake-results.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError } from '../connection/failures.ts';
import type { ServerContext } from '../server-context.ts';
import { refusalOf } from '../transport/http-refusal.ts';
import { failureClass, wasRefused } from './failure-class.ts';

/** Consecutive failed calls that make a server unhealthy. */
export const FAILURES_TILL_UNHEALTHY = 3;
/** Consecutive attempts that could not be sent, after which a remote server counts as gone. */
const UNSENT_TILL_GONE = 3;

/** Pings the server in the connection's era. Any answer counts. Rejects with GatewayError. */
async function ping(connection: Connection, timeoutMs: number): Promise<void> {
  const { era, profile } = connection;
  const message = era === 'stateless' ? discoverRequest('0', profile) : PING;
  await connection.ask(message, timeoutMs);
}

/**
 * The health of a server that is up, from two sources: its calls and a probe. Either can make it unhealthy, and only an answer
 * to the same source makes it healthy again. Each change is reported once. Repeated timeouts lead to a ping, and consecutive
 * calls that could not be sent close the connection.
 *
 * The probe pings unused connections (S3.11), also those with subscription streams. It skips connections with calls in flight
 * or with answers within the interval, which show as much. The first ping without an answer makes the server unhealthy, the
 * second closes the connection.
 */
export class ServerHealth {
  readonly #context: ServerContext;
  readonly #pool: { connections(): Iterable<Connection> };
  #unsent = 0;
  #failedCalls = 0;
  #callReason: string | null = null;
  #probeReason: string | null = null;
  /** Connections that did not answer the last probe. */
  #suspects = new Set<Connection>();
  #next = 0;
  #disarm: (() => void) | null = null;
  /** Incremented when probing begins or ends: results of an earlier probe do not count. */
  #run = 0;

  constructor(context: ServerContext, pool: { connections(): Iterable<Connection> }) {
    this.#context = context;
    this.#pool = pool;
  }

  /** Why the server is unhealthy; null if it is healthy. */
  get reason(): string | null {
    return this.#callReason ?? this.#probeReason;
  }

  /** Resets failed calls and reasons of the earlier state. */
  moved(to: ServerState): void {
    this.#unsent = 0;
    this.#failedCalls = 0;
    this.#callReason = null;
    this.#probeReason = null;
    if (UP.has(to)) this.beginProbing();
    else this.#endProbing();
  }

  /** Any answer counts: an error that a tool reports is not a failure of the server (S3.8). */
  callAnswered(): void {
    this.#unsent = 0;
    if (this.#failedCalls === 0) return;
    this.#failedCalls = 0;
    this.#found(null, this.#probeReason);
  }

  callFailed(error: GatewayError): void {
    if (error.code === 'OVERLOADED' || failureClass(error) === 'abort') return;
    // A refusal does not count: the server was there to refuse.
    if (error.outcome === 'NOT_SENT' && !error.data.retryable) return;
    this.#callsFailed(this.#failedCalls + 1, error.message);
  }

  /** `failure`: null if the probe was answered. */
  probed(failure: string | null): void {
    this.#found(this.#callReason, failure);
  }

  /** A process shows by its exit that it is gone; for a remote server only failing calls do. */
  callUnsent(connection: Connection | null): void {
    const { name: server, local, events } = this.#context;
    if (local || ++this.#unsent < UNSENT_TILL_GONE) return;
    this.#unsent = 0;
    // `shutdown` leaves the session at the server, to be resumed if the server returns.
    const error = new GatewayError('NOT_SENT', `${server} cannot be reached`, { server });
    if (connection !== null) events.replace(connection, error, 'shutdown');
  }

  /** F05: a server that answers a ping is slow and stays unhealthy; one that does not is hung, and its connection is replaced. */
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

  /**
   * A connection could not be opened. A remote server that refused it, but answers over another one, serves its other clients:
   * this is no crash. A 401 to that question ends the other connection, and thus leads to `auth_required`.
   */
  async openFailed(error: GatewayError, supervisor: { crashed(error: GatewayError): void }): Promise<void> {
    const refused = !this.#context.local && wasRefused(error);
    const other = refused ? [...this.#pool.connections()].find(({ ready }) => ready) : undefined;
    if (other === undefined || (await this.#ask(other)) !== null) supervisor.crashed(error);
  }

  #callsFailed(count: number, reason: string): void {
    this.#failedCalls = count;
    if (count >= FAILURES_TILL_UNHEALTHY) this.#found(`${count} calls in a row failed: ${reason}`, this.#probeReason);
  }

  #found(callReason: string | null, probeReason: string | null): void {
    const before = this.reason;
    this.#callReason = callReason;
    this.#probeReason = probeReason;
    if ((this.reason === null) !== (before === null)) this.#context.events.healthChanged(this.reason);
  }

  /** Starts probing when the server is up or the probe interval has changed. */
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

  /** Idle time after which a connection is pinged; 0 for never. */
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
      // `replace` may have ended this run.
      if (run !== this.#run) return;
    }
    this.#suspects = suspects;
    if (asked.length > 0) this.probed(failure?.message ?? null);
    this.#arm(suspects.size > 0 ? Math.min(times.pingMs, this.#everyMs) : this.#everyMs);
  }

  /** Connections to ping: suspects first, else every idle process, or one idle remote connection in turn. */
  #idle(): Connection[] {
    // A silent connection, for example on a node without its lease, shows nothing about the server (F28).
    const all = [...this.#pool.connections()].filter(({ ready, transport }) => ready && transport.silent !== true);
    const idle = all.filter((connection) => connection.load === 0 && !this.#answeredLately(connection));
    const again = idle.filter((connection) => this.#suspects.has(connection));
    if (again.length > 0) return again;
    // Processes can hang independently.
    if (this.#context.ownProcess) return idle;
    // For a remote server one connection's answers count for all, and so does the probe.
    return idle.length === 0 || idle.length < all.length ? [] : [idle[this.#next++ % idle.length]!];
  }

  #answeredLately({ use }: Connection): boolean {
    return (
      use.requests > 0 && use.consecutiveErrors === 0 && this.#context.deps.clock.now() - use.lastUsedAt < this.#everyMs
    );
  }

  /** Why the connection seems to be gone; null after an answer, or if calls or the transport have shown more meanwhile. */
  async #ask(connection: Connection): Promise<GatewayError | null> {
    try {
      await ping(connection, this.#context.times.pingMs);
      return null;
    } catch (cause) {
      const error = asGatewayError(cause, this.#context.name);
      if (!connection.live || connection.load > 0 || this.#answeredLately(connection)) return null;
      const status = refusalOf(error)?.status ?? 0;
      return status > 0 && status < 500 ? null : error;
    }
  }
}
