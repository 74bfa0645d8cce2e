import { mayUse, type Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';

/**
 * The first policy on every path: may this caller use that server at all? It is asked before anybody looks whether
 * the server or the name exists, so that the answer tells a stranger nothing (S2.28, S2.31).
 */
export function refuseAccess(principal: Principal, server: string): GatewayError | null {
  if (mayUse(principal, server)) return null;
  return new GatewayError(
    'ACCESS_DENIED',
    `Access denied: agent '${principal.name}' cannot use tools from '${server}'`,
  );
}
