import type { DesiredState } from './desired-state.ts';
import { isLoopbackHost } from './host-address.ts';

/** What a listener has that makes it safe to be reached by other machines. */
export interface Exposure {
  /** Agents authenticate nobody where unknown callers get everything too. */
  readonly authenticated: boolean;
  /** By TLS of our own or of a proxy. */
  readonly encrypted: boolean;
}

/**
 * What a listener lacks that would open the gateway to other machines; null where it may be opened. Beyond loopback,
 * everybody who reaches the port could run the tools: that takes authentication and encryption.
 */
export function unsafeExposure(
  listen: DesiredState['listen'],
  unknownCallers: DesiredState['unknownCallers'],
  hasAgents: boolean,
): Exposure | null {
  if (listen.insecure || isLoopbackHost(listen.host)) return null;
  const authenticated = hasAgents && unknownCallers === 'refuse';
  const encrypted = listen.tls !== null || listen.trustedProxies.length > 0;
  return authenticated && encrypted ? null : { authenticated, encrypted };
}
