import type { GatewayError } from '../../model/gateway-error.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError } from '../connection/failures.ts';
import type { ServerContext } from '../server-context.ts';
import { refusalOf } from '../transport/http-refusal.ts';
import { ping, type ServerHealth } from './server-health.ts';

/**
 * Asks the unused connections of one server whether they are still there (S3.11). One timer while the server
 * is up. A connection over which calls are under way, or were answered within the interval, is not asked: the calls
 * tell as much. The first question without an answer makes the server unhealthy, the second ends the connection.
 */
export class HealthProbe {
  readonly #context: ServerContext;
  readonly #pool: { connections(): Iterable<Connection> };
  readonly #health: ServerHealth;
  /** Which failed to answer last time. */
  #suspects = new Set<Connection>();
  #next = 0;
  #disarm: (() => void) | null = null;
  /** Raised at every start and end: what a probe of an earlier run finds does not count. */
  #run = 0;

  constructor(context: ServerContext, pool: { connections(): Iterable<Connection> }, health: ServerHealth) {
    this.#context = context;
    this.#pool = pool;
    this.#health = health;
  }

  /** The server is up, or how often it is asked has changed. */
  begin(): void {
    this.end();
    this.#arm(this.#everyMs);
  }

  end(): void {
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
    if (asked.length > 0) this.#health.probed(failure?.message ?? null);
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
