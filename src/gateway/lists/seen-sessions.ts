import type { Catalog } from '../../catalog/catalog.ts';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import type { ListKind } from '../../model/server-catalog.ts';
import type { Catalogs } from './catalogs.ts';
import type { Recipient } from './list-changes.ts';

export interface SeenSession extends Recipient {
  readonly taken: Map<ListKind, Catalog>;
  /** The clock time of the last notification by method: `notifiedByServer` by its own connection, `notified` by the gateway. */
  readonly notifiedByServer: Map<string, number>;
  readonly notified: Map<string, number>;
}

/**
 * The stateful sessions that made a request since the gateway started, with their clients. A server's message outside any call
 * names only the session; names and rights of the client are found here.
 */
export class SeenSessions {
  readonly #catalogs: Catalogs;
  readonly #sessions = new Map<string, SeenSession>();

  constructor(catalogs: Catalogs) {
    this.#catalogs = catalogs;
  }

  see(client: ClientProfile, endpoint: Endpoint): void {
    if (client.sessionId === null) return;
    const known = this.#sessions.get(client.sessionId);
    if (known?.client === client && known.endpoint === endpoint) return;
    const announced = known?.announced ?? (endpoint.kind === 'aggregate' ? this.#catalogs.of(client) : null);
    const { taken, notifiedByServer, notified } = known ?? {
      taken: new Map(),
      notifiedByServer: new Map(),
      notified: new Map(),
    };
    this.#sessions.set(client.sessionId, { client, endpoint, announced, taken, notifiedByServer, notified });
  }

  get(sessionId: string): SeenSession | null {
    return this.#sessions.get(sessionId) ?? null;
  }

  /** Records that the client has read this list of this catalog, so that it needs no notification of it. */
  took(client: ClientProfile, kind: ListKind, catalog: Catalog): void {
    const seen = client.sessionId === null ? undefined : this.#sessions.get(client.sessionId);
    if (seen === undefined || seen.endpoint.kind !== 'aggregate') return;
    if (catalog === seen.announced) seen.taken.delete(kind);
    else seen.taken.set(kind, catalog);
  }

  ids(): Iterable<string> {
    return this.#sessions.keys();
  }

  /** Agents changed: updates the rights with which sessions receive messages of servers. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    for (const [sessionId, seen] of this.#sessions) {
      const { client } = seen;
      // A session whose principal no longer exists sees no server.
      const principal = current(client.principal.id) ?? { ...client.principal, servers: new Set() };
      if (principal !== client.principal) this.#sessions.set(sessionId, { ...seen, client: { ...client, principal } });
    }
  }

  delete(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }
}
