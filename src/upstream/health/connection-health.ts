import { GatewayError } from '../../model/gateway-error.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError } from '../connection/failures.ts';
import type { CloseReason } from '../transport/transport.ts';
import { ping } from './health-probe.ts';
import { FAILURES_TILL_UNHEALTHY, type ServerHealth } from './server-health.ts';

/** Attempts in a row that could not even be sent; then a remote server counts as gone. */
const UNSENT_TILL_GONE = 3;

export interface ConnectionHealthDeps {
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
