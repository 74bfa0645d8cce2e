import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';

/** Whether the caller may still do exactly what it might before; null stands for a caller that is none any more. */
export function sameRights(before: Principal, now: Principal | null): boolean {
  if (now === null) return false;
  const [had, has] = [before.servers, now.servers];
  if (had === null || has === null) return had === has;
  return had.size === has.size && [...had].every((server) => has.has(server));
}

/**
 * Whether servers' states are bound to this caller here (proto:S6). Only the anonymous user of one server's own
 * endpoint gets them as they are: there is nobody to bind them to, and one server to come back to.
 */
export function sealsInput(endpoint: Endpoint, principal: Principal): boolean {
  return endpoint.kind === 'aggregate' || principal.id !== ANONYMOUS.id;
}
