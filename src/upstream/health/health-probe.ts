import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { request } from '../../protocol/compose.ts';
import { discoverRequest } from '../../protocol/stateless/discover.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError } from '../connection/failures.ts';
import { refusalOf } from '../transport/http-refusal.ts';
import type { CloseReason } from '../transport/transport.ts';
import { FAILURES_TILL_UNHEALTHY, type ServerHealth } from './server-health.ts';

interface HealthProbeDeps {
  readonly server: string;
  readonly clock: Clock;
  readonly health: ServerHealth;
  /** How long nothing may be heard of a connection before it is asked; 0 for never. */
  readonly everyMs: () => number;
  /** Time for an answer; also what passes between the first question that failed and the second. */
  readonly pingMs: number;
  /** Each connection is a process of its own; else one of them stands for all. */
  readonly each: boolean;
  readonly connections: () => Iterable<Connection>;
  /** The connection does not answer any more. */
  readonly gone: (connection: Connection, error: GatewayError) => void;
}

/** Asks whether anybody is there, in the way of the connection's era. Any answer will do. Rejects with GatewayError. */
async function ping(connection: Connection, timeoutMs: number): Promise<void> {
  const { era, profile } = connection;
  await connection.ask(
    era === 'stateless' ? discoverRequest('0', profile) : request('ping', '0', null, 'stateful'),
    timeoutMs,
  );
}

/**
 * Asks the connections of one server that nobody uses whether they are still there (S3.11). One timer while the server
 * is up. A connection over which calls are under way, or were answered within the interval, is not asked: the calls
 * tell as much. The first question without an answer makes the server unhealthy, the second ends the connection.
 */
export class HealthProbe {
  readonly #deps: HealthProbeDeps;
  /** Which failed to answer last time. */
  #suspects = new Set<Connection>();
  #next = 0;
  #disarm: (() => void) | null = null;
  /** Raised at every start and end: what a probe of an earlier run finds does not count. */
  #run = 0;

  constructor(deps: HealthProbeDeps) {
    this.#deps = deps;
  }

  /** The server is up, or how often it is asked has changed. */
  begin(): void {
    this.end();
    this.#arm(this.#deps.everyMs());
  }

  end(): void {
    this.#run++;
    this.#disarm?.();
    this.#disarm = null;
    this.#suspects.clear();
  }

  #arm(delayMs: number): void {
    if (delayMs <= 0) return;
    this.#disarm = this.#deps.clock.after(delayMs, () => void this.#probe());
  }

  async #probe(): Promise<void> {
    const run = this.#run;
    const { everyMs, pingMs, gone, health } = this.#deps;
    const asked = this.#idle();
    const failures = await Promise.all(asked.map((connection) => this.#ask(connection)));
    if (run !== this.#run) return;
    const suspects = new Set<Connection>();
    let failure: GatewayError | null = null;
    for (const [i, connection] of asked.entries()) {
      const error = failures[i] ?? null;
      if (error === null) continue;
      failure = error;
      if (this.#suspects.has(connection)) gone(connection, error);
      else suspects.add(connection);
      // What was told may have ended the run.
      if (run !== this.#run) return;
    }
    this.#suspects = suspects;
    if (asked.length > 0) health.probed(failure?.message ?? null);
    this.#arm(suspects.size > 0 ? Math.min(pingMs, everyMs()) : everyMs());
  }

  /** Whom to ask: suspects first, else all processes, or one connection after the other. */
  #idle(): Connection[] {
    // Of one that nothing is sent to, a node of a cluster that lost its lease perhaps, nothing is to be learned (F28).
    const all = [...this.#deps.connections()].filter(({ ready, transport }) => ready && transport.silent !== true);
    const idle = all.filter((connection) => connection.inFlight === 0 && !this.#answeredLately(connection));
    const again = idle.filter((connection) => this.#suspects.has(connection));
    if (again.length > 0) return again;
    if (this.#deps.each) return idle;
    // Somebody's answers stand for the server, and so does the probe.
    return idle.length === 0 || idle.length < all.length ? [] : [idle[this.#next++ % idle.length]!];
  }

  #answeredLately({ use }: Connection): boolean {
    const { clock, everyMs } = this.#deps;
    return use.requests > 0 && use.consecutiveErrors === 0 && clock.now() - use.lastUsedAt < everyMs();
  }

  /** Why it seems to be gone; null for an answer, and where calls or the transport have told more meanwhile. */
  async #ask(connection: Connection): Promise<GatewayError | null> {
    const { server, pingMs } = this.#deps;
    try {
      await ping(connection, pingMs);
      return null;
    } catch (cause) {
      const error = asGatewayError(cause, server);
      if (!connection.live || connection.inFlight > 0 || this.#answeredLately(connection)) return null;
      const status = refusalOf(error)?.status ?? 0;
      return status > 0 && status < 500 ? null : error;
    }
  }
}

/** Attempts in a row that could not even be sent; then a remote server counts as gone. */
const UNSENT_TILL_GONE = 3;

interface ConnectionHealthDeps {
  readonly server: string;
  readonly pingMs: number;
  readonly health: ServerHealth;
  /** Nothing but failing calls tells that a remote server is gone; a process says it by its exit. */
  readonly remote: boolean;
  /** Ends a connection as if it had ended by itself. */
  readonly replace: (connection: Connection, error: GatewayError, how: CloseReason) => void;
}

/**
 * What calls tell of the health of one server's connections: deadlines in a row lead to a ping, and calls in a row
 * that could not be sent to the end of the connection, so that the supervisor takes over.
 */
export class ConnectionHealth {
  readonly #deps: ConnectionHealthDeps;
  #unsent = 0;

  constructor(deps: ConnectionHealthDeps) {
    this.#deps = deps;
  }

  answered(): void {
    this.#unsent = 0;
    this.#deps.health.callAnswered();
  }

  failed(error: GatewayError): void {
    this.#deps.health.callFailed(error);
  }

  unsent(connection: Connection | null): void {
    const { server, remote, replace } = this.#deps;
    if (!remote || ++this.#unsent < UNSENT_TILL_GONE) return;
    this.#unsent = 0;
    if (connection === null) return;
    // Not ended for the server: should it come back with the session, so do we.
    replace(connection, new GatewayError('NOT_SENT', `${server} cannot be reached`, { server }), 'shutdown');
  }

  /**
   * F05: a server that answers a ping is slow, and unhealthy all the same; one that does not is hung, and its connection
   * is replaced.
   */
  async probe(connection: Connection): Promise<void> {
    const { server, pingMs, health, replace } = this.#deps;
    health.callsFailed(FAILURES_TILL_UNHEALTHY, `${server} did not answer in time`);
    try {
      await ping(connection, pingMs);
    } catch (cause) {
      const error = asGatewayError(cause, server);
      if (error.code === 'TIMEOUT' && connection.live) replace(connection, error, 'remove');
    }
  }
}
