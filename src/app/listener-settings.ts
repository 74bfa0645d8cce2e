import type { ListenerSettings } from '../http/listener/listener.ts';
import type { DesiredState } from '../model/desired-state.ts';

/** Settings of the MCP listener, or of another one on an address of its own, which speaks plain HTTP. */
export function listenerSettings(
  { listen }: DesiredState,
  address?: { readonly host: string; readonly port: number },
): ListenerSettings {
  const { host, port, tls, trustedProxies, allowedHosts, allowedOrigins, maxBodyBytes, maxConnections } = listen;
  if (address === undefined)
    return { host, port, tls, trustedProxies, allowedHosts, allowedOrigins, maxBodyBytes, maxConnections };
  // Names and origins that may reach the tools may not for that reason reach the controls.
  return {
    ...address,
    tls: null,
    trustedProxies: [],
    allowedHosts: [],
    allowedOrigins: [],
    maxBodyBytes,
    maxConnections,
  };
}
