import { mayUse, type Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Policy } from './policy.ts';

/** Requests that end what an earlier request began. The gateway sends them even if a caller has lost its rights. */
const ENDING: ReadonlySet<string> = new Set(['resources/unsubscribe', 'tasks/cancel']);

/** Whether the caller may use the server at all (S2.28), also for servers without a definition. */
export const access: Policy = ({ principal, server }, exchange) =>
  ENDING.has(exchange.request.method) ? null : refuseAccess(principal, server);

/** The same check before any look-up: the answer does not depend on whether the server or name exists (S2.28, S2.31). */
export function refuseAccess(principal: Principal, server: string): GatewayError | null {
  if (mayUse(principal, server)) return null;
  return new GatewayError(
    'ACCESS_DENIED',
    `Access denied: agent '${principal.name}' cannot use tools from '${server}'`,
  );
}

/** Whether the caller sees the server in lists and receives its messages outside any call. */
export function sees(principal: Principal, server: string): boolean {
  return mayUse(principal, server);
}

/** Whether the caller has exactly the same rights as before; `now` is null for a caller that no longer exists. */
export function sameRights(before: Principal, now: Principal | null): boolean {
  if (now === null) return false;
  const [had, has] = [before.servers, now.servers];
  if (had === null || has === null) return had === has;
  return had.size === has.size && [...had].every((server) => has.has(server));
}

/** Whether the key with which the caller opened its streams is not its key any more: another one may read them. */
export function keyRevoked(before: Principal, now: Principal): boolean {
  return before.keyDigest !== undefined && before.keyDigest !== now.keyDigest;
}

/** Whether a stream that the caller opened stays open: with the same rights, and the same key. */
export function mayKeepOpen(before: Principal, now: Principal | null): boolean {
  return now !== null && sameRights(before, now) && !keyRevoked(before, now);
}
