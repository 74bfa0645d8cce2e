import { GatewayError } from '../../model/gateway-error.ts';
import type { AuthChallenge } from '../../model/server-state.ts';
import { refusalOf } from '../transport/http-refusal.ts';

/** Longer ones are not taken apart. */
const MAX_LENGTH = 8192;
const PARAMETER = /([A-Za-z0-9_-]{1,64})=(?:"((?:[^"\\]|\\.){0,4096})"|([^\s",]{1,4096}))/g;

/** From the 401 among the causes of the error (RFC 9110 §11.6.1, RFC 9728 §5.1). */
export function challengeOf(error: GatewayError): AuthChallenge {
  const header = headerOf(error);
  const parameters = new Map<string, string>();
  if (header !== null && header.length <= MAX_LENGTH) {
    for (const [, name, quoted, bare] of header.matchAll(PARAMETER)) {
      const value = quoted === undefined ? bare! : quoted.replace(/\\(.)/g, '$1');
      parameters.set(name!.toLowerCase(), value);
    }
  }
  const issuer = parameters.get('issuer') ?? parameters.get('authorization_uri') ?? null;
  return {
    resourceMetadata: parameters.get('resource_metadata') ?? null,
    scope: parameters.get('scope') ?? null,
    issuer,
  };
}

function headerOf(error: GatewayError): string | null {
  for (let at: unknown = error, depth = 0; at instanceof GatewayError && depth < 8; at = at.cause, depth++) {
    const refusal = refusalOf(at);
    if (refusal !== null && refusal.challenge !== null) return refusal.challenge;
  }
  return null;
}
