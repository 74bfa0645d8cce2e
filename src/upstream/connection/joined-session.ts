import type { SessionMember, SharedUpstreamSessions, UpstreamSessionRef } from '../../model/ports.ts';
import type { CloseReason, Transport } from '../transport/transport.ts';

/** A connection's membership in a session that all nodes share: it listens on request, and does not end the session alone. */
export class JoinedSession implements SessionMember {
  generation: string;
  readonly listens: boolean;
  readonly #place: UpstreamSessionRef;
  readonly #sessions: SharedUpstreamSessions;
  readonly #transport: Transport;
  readonly #superseded: () => void;
  #withServer = false;
  #ending: Promise<CloseReason> | null = null;

  constructor(
    place: UpstreamSessionRef,
    generation: string,
    sessions: SharedUpstreamSessions,
    transport: Transport,
    listens: boolean,
    superseded: () => void,
  ) {
    this.#place = place;
    this.generation = generation;
    this.#sessions = sessions;
    this.#transport = transport;
    this.#superseded = superseded;
    this.listens = listens;
    sessions.join(place, this);
  }

  generationChanged(generation: string): void {
    this.generation = generation;
  }

  listen(after: string | null, gap: boolean): void {
    this.#transport.listen?.(after, gap);
  }

  stopListening(): string | null {
    return this.#transport.silence?.() ?? null;
  }

  replaced(): void {
    this.#superseded();
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
