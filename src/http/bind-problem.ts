import type { DesiredState } from '../model/desired-state.ts';
import { isLoopbackHost } from './address.ts';

/**
 * Why a listener must not be opened this way, as a sentence with the remedy; null when it may. Beyond loopback,
 * everybody who reaches the port could run the tools: that takes authentication, and TLS of our own or of a proxy.
 * `config/settings` says the same of files, with the place; this holds for whatever else sets the address.
 */
export function bindProblem(desired: Pick<DesiredState, 'listen' | 'agents' | 'unknownCallers'>): string | null {
  const { host, tls, trustedProxies, insecure } = desired.listen;
  if (insecure || isLoopbackHost(host)) return null;
  // Agents authenticate nobody where unknown callers get everything too.
  const authenticated = desired.agents.size > 0 && desired.unknownCallers === 'refuse';
  const encrypted = tls !== null || trustedProxies.length > 0;
  if (authenticated && encrypted) return null;
  const missing = [
    ...(authenticated ? [] : ['authentication (configure `agents` with keys, and leave `unknownCallers` at refuse)']),
    ...(encrypted ? [] : ['encryption (`tls: { cert, key }`, or `trustedProxies` for a proxy that terminates TLS)']),
  ];
  return (
    `Listening on ${host} would open the gateway to other machines without ${missing.join(' and without ')}. ` +
    'Add it, listen on 127.0.0.1, or start with --insecure if the network itself is trusted.'
  );
}
