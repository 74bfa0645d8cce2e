import { OPERATOR, type Principal } from '../../model/client-profile.ts';
import { AGGREGATE } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { LATEST_STATEFUL } from '../../model/message.ts';
import type { ClientSession } from './client-session.ts';
import type { SessionTable } from './session-table.ts';

/** A client session as embedding programs see it (S2.38). A copy: changing it has no effect on the session. */
export interface Session {
  readonly id: string;
  /** The `clientInfo` of the client; null if it sent none. */
  readonly clientInfo: unknown;
  readonly initialized: boolean;
  readonly createdAt: Date;
  readonly lastSeen: Date;
}

/** The client sessions of a gateway, for embedding programs. Expiry and limits are those of the gateway's settings. */
export class SessionManager {
  readonly #sessions: SessionTable;
  readonly #now: () => number;

  /** `now` reads the monotonic clock of the gateway. */
  constructor(sessions: SessionTable, now: () => number) {
    this.#sessions = sessions;
    this.#now = now;
  }

  /** Opens a session on `/mcp`, by default one of the program. Throws GatewayError OVERLOADED at the limit. */
  create(clientInfo: unknown = null, principal: Principal = OPERATOR): Session {
    const info = clientInfo === null ? null : JSON.stringify(clientInfo);
    if (info === undefined) throw new GatewayError('INVALID_PARAMS', 'clientInfo is not JSON');
    return this.#view(
      this.#sessions.create({
        principal,
        endpoint: AGGREGATE,
        revision: LATEST_STATEFUL,
        capabilities: '{}',
        info,
        persistent: true,
      }),
    );
  }

  /** Returns null if this process does not hold the session. */
  get(id: string): Session | null {
    const session = this.#sessions.find(id);
    return session === undefined ? null : this.#view(session);
  }

  /** Marks the session as used now; false for an unknown id. */
  touch(id: string): boolean {
    const session = this.#sessions.find(id);
    if (session === undefined) return false;
    session.lastUsed = this.#now();
    return true;
  }

  /** Ends the session and all its calls; false for an unknown id. */
  delete(id: string): boolean {
    const session = this.#sessions.find(id);
    if (session === undefined) return false;
    this.#sessions.end(session, 'the session was deleted');
    return true;
  }

  list(): Session[] {
    return Array.from(this.#sessions.values(), (session) => this.#view(session));
  }

  /** Ends the sessions that were not used for `maxAgeMs`; returns how many. */
  cleanup(maxAgeMs: number): number {
    return this.#sessions.sweep(maxAgeMs);
  }

  #view(session: ClientSession): Session {
    const idleMs = this.#now() - session.lastUsed;
    return {
      id: session.mcpSessionId,
      clientInfo: session.client.info === null ? null : JSON.parse(session.client.info),
      initialized: session.initialized,
      createdAt: new Date(session.createdAt),
      lastSeen: new Date(this.#sessions.wall() - idleMs),
    };
  }
}
