import type { Catalog } from '../../catalog/catalog.ts';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import type { ListKind } from '../../model/server-catalog.ts';
import type { Catalogs } from './catalogs.ts';
import type { Recipient } from './list-changes.ts';

export interface SeenSession extends Recipient {
  readonly taken: Map<ListKind, Catalog>;
  /** When it was last notified by its own connection, and by the gateway, of each list, by our clock. */
  readonly heard: Map<string, number>;
  readonly notified: Map<string, number>;
}

/**
 * The stateful sessions that spoke to this gateway since it started, with whom they belong to. What a server says
 * outside any call names only the session; this says in whose words and with whose rights it goes on.
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
    const { taken, heard, notified } = known ?? { taken: new Map(), heard: new Map(), notified: new Map() };
    this.#sessions.set(client.sessionId, { client, endpoint, announced, taken, heard, notified });
  }

  get(sessionId: string): SeenSession | null {
    return this.#sessions.get(sessionId) ?? null;
  }

  /** The client was given this list as it is in this catalogue: there is nothing of that to tell it. */
  took(client: ClientProfile, kind: ListKind, catalog: Catalog): void {
    const seen = client.sessionId === null ? undefined : this.#sessions.get(client.sessionId);
    if (seen === undefined || seen.endpoint.kind !== 'aggregate') return;
    if (catalog === seen.announced) seen.taken.delete(kind);
    else seen.taken.set(kind, catalog);
  }

  ids(): Iterable<string> {
    return this.#sessions.keys();
  }

  /** Agents were changed: what servers say goes on only to those who may still hear it. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    for (const [sessionId, seen] of this.#sessions) {
      const { client } = seen;
      // A session whose principal is gone sees no server.
      const principal = current(client.principal.id) ?? { ...client.principal, servers: new Set() };
      if (principal !== client.principal) this.#sessions.set(sessionId, { ...seen, client: { ...client, principal } });
    }
  }

  delete(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }
}
