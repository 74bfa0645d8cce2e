import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Era } from '../model/message.ts';
import type { Isolation, Server } from '../model/server.ts';
import type { ConnectionStatus } from '../model/server-state.ts';
import type { Attempt } from './attempt.ts';
import type { Connection } from './connection.ts';
import type { Connector } from './connector.ts';
import type { ProcessQuota } from './process-quota.ts';
import { isolationOf, SHARED_KEY, sessionKey } from './session-key.ts';
import { SessionPool, type Wanted } from './session-pool.ts';
import { SHARED, tenancyOf } from './tenancy.ts';
import type { CloseReason } from './transport/transport.ts';

export interface ClientConnectionsDeps {
  readonly clock: Clock;
  readonly connector: Connector;
  /** null for servers that are no processes of this machine. */
  readonly quota: ProcessQuota | null;
  /** As the last handshake of an earlier process found it. */
  readonly era: Era | null;
  /** Presented on connections that are everybody's. */
  readonly nobody: ClientProfile;
  readonly adopted: (connection: Connection, want: Wanted) => void;
}

/**
 * Which connection of one server a client's messages use: its isolation, decided by the server's era where the
 * operator did not, turned into keys of the session pool. Says nothing of whether the server is up.
 */
export class ClientConnections {
  readonly pool: SessionPool;
  readonly #deps: ClientConnectionsDeps;
  #server: Server;
  #era: Era | null;
  /** null until the era is known, where it depends on that. */
  #isolation: Isolation | null = null;

  constructor(server: Server, deps: ClientConnectionsDeps) {
    this.#server = server;
    this.#deps = deps;
    this.#era = deps.era;
    this.pool = new SessionPool({
      server: server.name,
      clock: deps.clock,
      connect: (want, attempt) => this.#connect(want, attempt),
      resumable: (want) => deps.connector.resumable(this.#server, want),
      adopted: (connection, want) => {
        deps.connector.remember(this.#server, want, connection);
        deps.adopted(connection, want);
      },
      quota: deps.quota,
      limit: () => this.#server.limits.maxProcesses,
    });
    this.#decide();
  }

  update(server: Server): void {
    this.#server = server;
    this.#decide();
  }

  /** The client's connection, if calls can be sent on it now. */
  ready(client: ClientProfile): Connection | null {
    return this.#isolation === null ? null : this.pool.ready(sessionKey(client, this.#isolation));
  }

  /** The client's connection, opened if need be. Rejects with GatewayError. */
  acquire(client: ClientProfile): Promise<Connection> {
    return this.pool.acquire(this.#wantedBy(client));
  }

  /** A connection to list the server over for this kind of client; never one that only a session would need. */
  forListing(profile: ClientProfile): Promise<Connection> {
    if (this.#isolation === 'shared') return this.pool.acquire(this.#shared);
    const live = this.#era === 'stateless' ? this.pool.any : this.pool.presenting(profile.fingerprint);
    return live === null ? this.pool.openSpare(profile) : Promise.resolve(live);
  }

  /** The first connection of a start. Whose it is may turn out only when the server's era is known. */
  async first(profile: ClientProfile, attempt: Attempt): Promise<Connection> {
    if (this.#isolation === 'shared') return this.pool.acquire(this.#shared);
    const want = this.#wantedBy(profile);
    if (this.#deps.connector.resumable(this.#server, want)) return this.pool.acquire(want);
    const connection = await this.pool.openSpare(profile, attempt);
    if (this.#decided === 'shared') this.pool.promoteSpare(SHARED_KEY, SHARED);
    return connection;
  }

  /** Whose catalogue a client is shown: on a shared stateful connection nobody's capabilities are presented. */
  listedAs(client: ClientProfile): ClientProfile {
    return this.#isolation === 'shared' && this.#era !== 'stateless' ? this.#deps.nobody : client;
  }

  /** The key's session is not to be resumed any more. */
  forgetSession(key: string): void {
    this.#deps.connector.forget(this.#server, key);
  }

  release(sessionId: string): void {
    this.forgetSession(sessionId);
    void this.pool.release(sessionId);
  }

  closeAll(how: CloseReason): Promise<void> {
    if (how === 'remove') for (const key of this.pool.keys()) this.forgetSession(key);
    return this.pool.closeAll(how);
  }

  statuses(): ConnectionStatus[] {
    return this.pool.statuses();
  }

  #wantedBy(client: ClientProfile): Wanted {
    const isolation = this.#isolation ?? 'session';
    if (isolation === 'shared') return this.#shared;
    return { key: sessionKey(client, isolation), tenancy: tenancyOf(client, isolation), profile: client };
  }

  get #shared(): Wanted {
    return { key: SHARED_KEY, tenancy: SHARED, profile: this.#deps.nobody };
  }

  get #decided(): Isolation | null {
    return this.#isolation;
  }

  async #connect(want: Wanted, attempt: Attempt): Promise<Connection> {
    const connection = await this.#deps.connector.connect(this.#server, want, attempt);
    this.#era = connection.era;
    this.#decide();
    return connection;
  }

  #decide(): void {
    this.#isolation = this.#era === null ? this.#server.isolation : isolationOf(this.#server, this.#era);
  }
}
