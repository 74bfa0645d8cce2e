import type { ListenerSettings } from '../http/listener/listener.ts';
import type { DesiredState } from '../model/desired-state.ts';

/** Settings of the MCP listener, or of another one on an address of its own, which speaks plain HTTP. */
export function listenerSettings(
  { listen }: DesiredState,
  address?: { readonly host: string; readonly port: number },
): ListenerSettings {
  const { insecure: _, ...settings } = listen;
  if (address === undefined) return settings;
  // Names and origins that may reach the tools may not for that reason reach the controls.
  return { ...settings, ...address, tls: null, trustedProxies: [], allowedHosts: [], allowedOrigins: [] };
}
