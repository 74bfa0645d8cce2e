import { type DesiredState, unsafeExposure } from '../../model/desired-state.ts';

/**
 * Why a listener must not be opened this way, with the remedy; null when it may. For addresses that are not from a
 * file, which `config/settings` checks.
 */
export function bindProblem(desired: Pick<DesiredState, 'listen' | 'agents' | 'unknownCallers'>): string | null {
  const exposed = unsafeExposure(desired.listen, desired.unknownCallers, desired.agents.size > 0);
  if (exposed === null) return null;
  const missing = [
    ...(exposed.authenticated
      ? []
      : ['authentication (configure `agents` with keys, and leave `unknownCallers` at refuse)']),
    ...(exposed.encrypted
      ? []
      : ['encryption (`tls: { cert, key }`, or `trustedProxies` for a proxy that terminates TLS)']),
  ];
  return (
    `Listening on ${desired.listen.host} would open the gateway to other machines without ${missing.join(' and without ')}. ` +
    'Add it, listen on 127.0.0.1, or start with --insecure if the network itself is trusted.'
  );
}
