import { loginCatalog } from '../../catalog/login-catalog.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { UserLogins } from '../../model/credential-ports.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { KnownServers } from '../known-servers.ts';
import type { Drift } from './drift.ts';

/**
 * The servers with their catalogs as they are offered (docs/drift.md); everything else passes through. A server without a
 * catalog that asks for a user's login gets the login catalog.
 */
export function guardedUpstreams(raw: KnownServers, drift: Pick<Drift, 'view'>, logins: UserLogins): KnownServers {
  const asksLogin = (server: string, client: ClientProfile) =>
    logins.takesUser(server) && raw.state(server, client) === 'auth_required';
  const view = (catalog: ServerCatalog | null, server: string, client: ClientProfile) => {
    if (catalog !== null) return drift.view(catalog);
    return asksLogin(server, client) ? loginCatalog(server) : null;
  };
  return {
    knownCatalog: (server, client, orOthers) => view(raw.knownCatalog(server, client, orOthers), server, client),
    catalog: async (server, client, waitMs, amongOthers) =>
      view(await raw.catalog(server, client, waitMs, amongOthers), server, client),
    servers: () => raw.servers(),
    notify: (server, notification, client) => raw.notify(server, notification, client),
    listSourceKey: (client) => raw.listSourceKey?.(client) ?? '',
    sessionKey: (server, client) => raw.sessionKey(server, client),
    ownsConnection: (server, client) => raw.ownsConnection(server, client),
    ownsConnectionElsewhere: async (server, client) => (await raw.ownsConnectionElsewhere?.(server, client)) ?? false,
    awaitPendingLists: async (server, exchange, list, name) =>
      (await raw.awaitPendingLists?.(server, exchange, list, name)) ?? false,
    status: (server, client) => raw.status(server, client),
    state: (server, client) => raw.state(server, client),
    releaseSession: (sessionId) => raw.releaseSession(sessionId),
  };
}
