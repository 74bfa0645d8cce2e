import type { UpstreamEvents } from '../model/ports.ts';
import type { Registry } from '../registry/registry.ts';
import type { ServerObserver } from './app-options.ts';
import type { Operations } from './operations.ts';

/** Passes events to the gateway first, then to the observer and the tracker. */
export function observed(
  events: UpstreamEvents,
  observer: ServerObserver,
  operations: Operations | null,
  registry: Registry,
): UpstreamEvents {
  return {
    notification: (server, sessionId, message, key) => events.notification(server, sessionId, message, key),
    request: (server, sessionId, message, key) => events.request(server, sessionId, message, key),
    stateLost: (server, sessionId, cause) => events.stateLost(server, sessionId, cause),
    connectionChanged: (server, key, change) => events.connectionChanged(server, key, change),
    contentChanged: (server, message) => events.contentChanged(server, message),
    catalogChanged(server, fingerprint, lists, key = null) {
      events.catalogChanged(server, fingerprint, lists, key);
      if (key === null) observer.catalogChanged(server, fingerprint, lists);
    },
    listsAnnounced: (server, key, methods) => events.listsAnnounced?.(server, key, methods),
    listedElsewhere: (server) => events.listedElsewhere?.(server),
    nodeSilent: (servedThere) => events.nodeSilent?.(servedThere),
    instancesGained: (servers) => events.instancesGained?.(servers),
    statusChanged(server, status) {
      events.statusChanged(server, status);
      observer.statusChanged(server, status, registry.state.servers.has(server));
      operations?.statusChanged(server, status);
    },
  };
}
