import { isWildcardAddress } from '../http/address.ts';
import type { ListenerSettings } from '../http/listener/listener.ts';
import type { DesiredState } from '../model/desired-state.ts';

/** Returns the settings of the MCP listener; with `address`, those of another listener, which speaks plain HTTP. */
export function listenerSettings(
  { listen }: DesiredState,
  address?: { readonly host: string; readonly port: number },
): ListenerSettings {
  const { insecure: _, publicUrl, ...settings } = listen;
  const own = publicUrl === null ? [] : [new URL(publicUrl)];
  const allowedHosts = [...listen.allowedHosts, ...own.map(({ host }) => host)];
  const allowedOrigins = [...listen.allowedOrigins, ...own.map(({ origin }) => origin)];
  if (address === undefined) return { ...settings, allowedHosts, allowedOrigins };
  // Hosts and origins that may reach the tools may not thereby reach the control API.
  return { ...settings, ...address, tls: null, trustedProxies: [], allowedHosts: [], allowedOrigins: [] };
}

/** Returns the settings of the control listeners: `own` for this machine, and `remote` with TLS for others; null without TLS. */
export function controlSettings(state: DesiredState): {
  readonly own: ListenerSettings;
  readonly remote: ListenerSettings | null;
} {
  const { host, port, tls, allowedHosts, publicUrl } = state.control;
  const url = publicUrl === null ? null : new URL(publicUrl);
  const names = {
    allowedHosts: [...allowedHosts, ...(url === null ? [] : [url.host])],
    allowedOrigins: url === null ? [] : [url.origin],
  };
  if (tls === null) return { own: { ...listenerSettings(state, { host, port }), ...names }, remote: null };
  return {
    own: { ...listenerSettings(state, { host: '127.0.0.1', port: 0 }), ...names },
    remote: { ...listenerSettings(state, { host, port }), ...names, tls },
  };
}

/** Returns host and port of a listener for URLs that programs on this machine use. */
export function authority(host: string, port: number): string {
  const name = isWildcardAddress(host) ? '127.0.0.1' : host;
  return `${name.includes(':') ? `[${name}]` : name}:${port}`;
}
