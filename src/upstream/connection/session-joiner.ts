import { GatewayError } from '../../model/gateway-error.ts';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import type { SessionLock, SessionPlace, SharedUpstreamSessions } from '../../model/shared-upstream-sessions.ts';
import type { Connection } from './connection.ts';
import { JoinedSession } from './joined-session.ts';
import type { ConnectionsOwner } from './server-messages.ts';

/** Sessions that the server disowns one after the other. */
const ATTEMPTS = 4;
/** Disowned, and not opened anew since. What is forgotten of them is found out again. */
const MAX_GONE = 10_000;

/** One connection that is to be made. `open` and `resume` reject with GatewayError, nothing left behind. */
export interface SessionOpening {
  /** A new session; `replaces`: in the place of one that its server has forgotten, as it may have others. */
  open(replaces: boolean): Promise<Connection>;
  /** On a session that a node has opened; null when the server does not know it. */
  resume(record: UpstreamSessionRecord): Promise<Connection | null>;
  /** What others are to know of the session of a new connection; null where it has none. */
  record(connection: Connection): UpstreamSessionRecord | null;
  /** The connection is still awaited. */
  wanted(): boolean;
  /** What the server kept for an earlier session is gone. */
  forgotten(): void;
}

/** Goes on with the session that all nodes use for a session key, or opens it, one node at a time. */
export class SessionJoiner {
  readonly #sessions: SharedUpstreamSessions;
  readonly #owner: ConnectionsOwner<Connection>;
  /** The generation that the server disowned last, by session key, until there is another one. */
  readonly #gone = new Map<string, string>();
  /** The server gave no session when it was asked last, so there is nothing to share. */
  sessionless = false;

  constructor(sessions: SharedUpstreamSessions, owner: ConnectionsOwner<Connection>) {
    this.#sessions = sessions;
    this.#owner = owner;
  }

  met(connection: Connection): void {
    if (connection.era === 'stateful') this.sessionless = connection.mcpSessionId === null;
  }

  known(place: SessionPlace): Promise<boolean> {
    return this.#sessions.known(place);
  }

  /** The server does not know the connection's session any more. */
  disowned(place: SessionPlace, { generation }: JoinedSession<Connection>): void {
    if (this.#gone.size >= MAX_GONE) this.#gone.clear();
    this.#gone.set(place.key, generation);
  }

  async connect(place: SessionPlace, opening: SessionOpening): Promise<Connection> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const gone = this.#gone.get(place.key) ?? null;
      const entered = await this.#sessions.enter(place, gone, () => opening.wanted());
      if (entered.kind === 'lock') {
        const connection = await this.#open(place, entered, opening);
        if (connection === null) continue;
        this.#gone.delete(place.key);
        if (entered.replaces) opening.forgotten();
        return connection;
      }
      const connection = await opening.resume(entered.record);
      if (connection === null) {
        this.#gone.set(place.key, entered.generation);
        continue;
      }
      this.#gone.delete(place.key);
      this.#join(place, entered.generation, connection, false);
      return connection;
    }
    const { server } = place;
    throw new GatewayError('NOT_SENT', `${server} disowns its sessions, one after the other`, { server });
  }

  /** The client's session is over, and no connection of this node uses the server's. Null where that is others' affair. */
  end(place: SessionPlace): Promise<UpstreamSessionRecord | null> {
    this.#gone.delete(place.key);
    return this.#sessions.end(place, null, false);
  }

  /** null when another node has had to take over. */
  async #open(place: SessionPlace, lock: SessionLock, opening: SessionOpening): Promise<Connection | null> {
    let connection: Connection;
    try {
      connection = await opening.open(lock.replaces);
    } catch (error) {
      await lock.failed();
      throw error;
    }
    this.met(connection);
    const record = opening.record(connection);
    // No other node knows the session yet; one that claims the stream later finds it here, or this one goes silent.
    connection.transport.listen?.(null, false);
    if (record === null) {
      await lock.failed();
      return connection;
    }
    try {
      this.#join(place, await lock.opened(record), connection, true);
      return connection;
    } catch {
      await connection.close('remove');
      return null;
    }
  }

  #join(place: SessionPlace, generation: string, connection: Connection, listens: boolean): void {
    connection.joined = new JoinedSession(place, generation, this.#sessions, this.#owner, connection, listens);
  }
}
