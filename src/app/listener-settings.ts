import type { ListenerSettings } from '../http/listener/listener.ts';
import type { DesiredState } from '../model/desired-state.ts';

/** Settings of the MCP listener, or of another one on an address of its own, which speaks plain HTTP. */
export function listenerSettings(
  { listen }: DesiredState,
  address?: { readonly host: string; readonly port: number },
): ListenerSettings {
  const { insecure: _, publicUrl, ...settings } = listen;
  const own = publicUrl === null ? [] : [new URL(publicUrl)];
  const allowedHosts = [...listen.allowedHosts, ...own.map(({ host }) => host)];
  const allowedOrigins = [...listen.allowedOrigins, ...own.map(({ origin }) => origin)];
  if (address === undefined) return { ...settings, allowedHosts, allowedOrigins };
  // Names and origins that may reach the tools may not for that reason reach the controls.
  return { ...settings, ...address, tls: null, trustedProxies: [], allowedHosts: [], allowedOrigins: [] };
}

/** Host and port of a listener as programs on this machine write them in URLs. */
export function authority(host: string, port: number): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `${name.includes(':') ? `[${name}]` : name}:${port}`;
}
