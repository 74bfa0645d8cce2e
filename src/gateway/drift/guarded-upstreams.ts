import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { KnownServers } from '../known-servers.ts';
import type { Drift } from './drift.ts';

/** What is known of servers, with their catalogues as they are offered (docs/drift.md); all else passes. */
export function guardedUpstreams(raw: KnownServers, drift: Pick<Drift, 'view'>): KnownServers {
  const view = (catalog: ServerCatalog | null) => (catalog === null ? null : drift.view(catalog));
  return {
    knownCatalog: (server, client, orOthers) => view(raw.knownCatalog(server, client, orOthers)),
    catalog: async (server, client, waitMs, amongOthers) =>
      view(await raw.catalog(server, client, waitMs, amongOthers)),
    servers: () => raw.servers(),
    notify: (server, notification, client) => raw.notify(server, notification, client),
    sessionKey: (server, client) => raw.sessionKey(server, client),
    ownsConnection: (server, client) => raw.ownsConnection(server, client),
    ownsConnectionElsewhere: async (server, client) => (await raw.ownsConnectionElsewhere?.(server, client)) ?? false,
    foundMeanwhile: async (server, exchange, list, name) =>
      (await raw.foundMeanwhile?.(server, exchange, list, name)) ?? false,
    status: (server, client) => raw.status(server, client),
    state: (server, client) => raw.state(server, client),
    releaseSession: (sessionId) => raw.releaseSession(sessionId),
  };
}
