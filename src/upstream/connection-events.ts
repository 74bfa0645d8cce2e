import type { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { UpstreamEvents } from '../model/ports.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ClientConnections } from './client-connections.ts';
import { closedError } from './closed-error.ts';
import type { Connection } from './connection.ts';
import type { ConnectionHealth } from './connection-health.ts';
import type { ConnectionOwner } from './connection-owner.ts';
import { EraUnspoken } from './era-unspoken.ts';
import { asGatewayError } from './failures.ts';
import type { ListUpkeep } from './list-upkeep.ts';
import type { LostConnections } from './lost-connections.ts';
import type { ServerObserver } from './server-observer.ts';
import type { Wanted } from './session-pool.ts';
import type { Supervisor } from './supervisor.ts';
import { sessionOf } from './tenancy.ts';
import type { ClosedReason, CloseReason } from './transport/transport.ts';

/** Whom it tells. They need connections, which need their owner, so it is joined to them after they are made. */
export interface ConnectionEventsParts {
  readonly connections: ClientConnections;
  readonly supervisor: Supervisor;
  readonly lost: LostConnections;
  readonly upkeep: ListUpkeep;
  readonly health: ConnectionHealth;
  readonly observer: ServerObserver;
}

/**
 * What the connections of one server tell, brought to whom it concerns: an end to the supervisor and to the session
 * that lost its state, changed lists to those who list, the rest to the gateway.
 */
export class ConnectionEvents implements ConnectionOwner<Connection> {
  readonly #server: string;
  readonly #logger: Logger;
  readonly #events: UpstreamEvents;
  #parts!: ConnectionEventsParts;

  constructor(server: string, logger: Logger, events: UpstreamEvents) {
    this.#server = server;
    this.#logger = logger;
    this.#events = events;
  }

  /** Once, before the first connection. */
  attach(parts: ConnectionEventsParts): void {
    this.#parts = parts;
  }

  closed(connection: Connection, reason: ClosedReason): void {
    const { connections, supervisor, lost } = this.#parts;
    const want = connections.pool.forget(connection);
    // During a handshake an end may be an answer; a start that fails of it tells by `abandoned`.
    if (want === null) return;
    this.abandoned(connection);
    const error = closedError(this.#server, reason);
    this.#logger.warn('connection_ended', { reason: reason.kind, error: error.message });
    // An HTTP session may outlive its connection: whether it did is known when it is resumed.
    if (connection.mcpSessionId === null || reason.kind === 'session_lost') {
      connections.forgetSession(want.key);
      if (connection.era === 'stateful') this.stateLost(want);
    }
    if (reason.kind === 'session_lost') this.#reinitialize(want);
    else {
      if (want.tenancy.kind !== 'spare') lost.add(want);
      supervisor.crashed(error);
    }
  }

  /** It was given up before it was negotiated. */
  abandoned(connection: Connection): void {
    this.#parts.observer.ended(connection);
  }

  notified(connection: Connection, message: Message): void {
    if (connection.tenancy.kind === 'spare') return;
    this.#events.notification(this.#server, sessionOf(connection.tenancy), message);
  }

  asked(connection: Connection, message: Message): Promise<Message> {
    return this.#events.request(this.#server, sessionOf(connection.tenancy), message);
  }

  outdated(_connection: Connection, message: Message): void {
    this.#events.outdated(this.#server, message);
  }

  listChanged(connection: Connection, message: Message): void {
    this.#parts.upkeep.noted(connection, message);
  }

  missed(connection: Connection): void {
    this.#events.outdated(this.#server, null);
    this.#parts.upkeep.missed(connection);
  }

  unresponsive(connection: Connection): void {
    void this.#parts.health.probe(connection);
  }

  /** Ends a connection that is of no use any more, as if it had ended by itself. */
  replace(connection: Connection, error: GatewayError, how: CloseReason): void {
    const ended = connection.close(how);
    this.closed(connection, { kind: 'unreachable', error });
    void ended;
  }

  /** What the server kept for a session is gone. */
  stateLost(of: { readonly tenancy: Wanted['tenancy'] }): void {
    const sessionId = sessionOf(of.tenancy);
    if (sessionId !== null) this.#events.stateLost(this.#server, sessionId);
  }

  /** F22: a session the server has forgotten is replaced at once; what was not sent meanwhile waits for it. */
  #reinitialize(want: Wanted): void {
    const { connections, supervisor } = this.#parts;
    const { pool } = connections;
    const again = want.tenancy.kind === 'spare' ? pool.openSpare(want.profile, want.era) : pool.acquire(want);
    again.catch((error: unknown) => {
      if (!(error instanceof EraUnspoken)) supervisor.crashed(asGatewayError(error, this.#server));
    });
  }
}
