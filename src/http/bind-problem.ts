import type { ListenSettings } from '../model/desired-state.ts';
import { isLoopbackHost } from './address.ts';

/**
 * Why a listener must not be opened this way, as a sentence with the remedy; null when it may. Beyond loopback,
 * everybody who reaches the port could run the tools: that takes authentication, and TLS of our own or of a proxy.
 */
export function bindProblem(
  settings: Pick<ListenSettings, 'host' | 'tls' | 'trustedProxies' | 'insecure'>,
  authenticated: boolean,
): string | null {
  if (settings.insecure || isLoopbackHost(settings.host)) return null;
  const encrypted = settings.tls !== null || settings.trustedProxies.length > 0;
  if (authenticated && encrypted) return null;
  const missing = [
    ...(authenticated ? [] : ['authentication (configure `agents` with keys)']),
    ...(encrypted ? [] : ['encryption (`tls: { cert, key }`, or `trustedProxies` for a proxy that terminates TLS)']),
  ];
  return (
    `Listening on ${settings.host} would open the gateway to other machines without ${missing.join(' and without ')}. ` +
    'Add it, listen on 127.0.0.1, or start with --insecure if the network itself is trusted.'
  );
}
