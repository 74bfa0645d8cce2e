import type { SessionMember, SessionPlace, SharedUpstreamSessions } from '../../model/ports.ts';
import type { CloseReason, Transport } from '../transport/transport.ts';

/** A connection's membership in a session that all nodes share: it listens on request, and does not end the session alone. */
export class JoinedSession<C extends { readonly transport: Transport }> implements SessionMember {
  generation: string;
  readonly listens: boolean;
  readonly #place: SessionPlace;
  readonly #sessions: SharedUpstreamSessions;
  readonly #owner: { superseded(connection: C): void };
  readonly #connection: C;
  #withServer = false;
  #ending: Promise<CloseReason> | null = null;

  constructor(
    place: SessionPlace,
    generation: string,
    sessions: SharedUpstreamSessions,
    owner: { superseded(connection: C): void },
    connection: C,
    listens: boolean,
  ) {
    this.#place = place;
    this.generation = generation;
    this.#sessions = sessions;
    this.#owner = owner;
    this.#connection = connection;
    this.listens = listens;
    sessions.join(place, this);
  }

  renamed(generation: string): void {
    this.generation = generation;
  }

  listen(after: string | null, gap: boolean): void {
    this.#connection.transport.listen?.(after, gap);
  }

  silence(): string | null {
    return this.#connection.transport.silence?.() ?? null;
  }

  replaced(): void {
    this.#owner.superseded(this.#connection);
  }

  /** The connection has ended or is closing. */
  leave(): void {
    this.#sessions.leave(this.#place, this);
  }

  /** The server is being removed from this node; other nodes may still have it. */
  leaveWithServer(): void {
    this.#withServer = true;
  }

  /** How to close the connection: `remove` if this node must end the session at the server, else `shutdown`. */
  end(): Promise<CloseReason> {
    this.#ending ??= this.#sessions
      .end(this.#place, this.generation, this.#withServer)
      .then((record) => (record === null ? 'shutdown' : 'remove'));
    return this.#ending;
  }
}
