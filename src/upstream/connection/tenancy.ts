import type { ClientProfile } from '../../model/client-profile.ts';

/**
 * Whose a connection is. `spare`: nobody's yet; it was opened to list the server, and the first session with the same
 * capabilities gets it. `shared`: everybody's, so nothing the server sends unasked can be attributed on it; where it is
 * one of several replicas, that one's number.
 */
export type Tenancy =
  | { readonly kind: 'spare' }
  | { readonly kind: 'shared'; readonly replica?: number }
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'principal'; readonly principal: string; readonly handle: string | null };

export const SPARE: Tenancy = { kind: 'spare' };
export const SHARED: Tenancy = { kind: 'shared' };

/** All calls of the connection are of one session or principal. */
export function isExclusive(tenancy: Tenancy): boolean {
  return tenancy.kind === 'session' || tenancy.kind === 'principal';
}

/**
 * All calls of the connection are of one conversation: what the server asks unasked concerns that, whichever call it
 * has in mind. A principal alone is none: many clients may call as one. The handle that the operator named makes it one.
 */
export function isOneClient(tenancy: Tenancy): boolean {
  return tenancy.kind === 'session' || (tenancy.kind === 'principal' && tenancy.handle !== null);
}

/** One of several processes that are everybody's. */
export function isReplica(tenancy: Tenancy): boolean {
  return tenancy.kind === 'shared' && tenancy.replica !== undefined;
}

/** The one client session it belongs to; null where it is not one session's. */
export function sessionOf(tenancy: Tenancy): string | null {
  return tenancy.kind === 'session' ? tenancy.sessionId : null;
}

/** The tenancy that a client's own connection has. A stateless client has no session; its principal stands in. */
export function tenancyOf(client: ClientProfile, isolation: 'session' | 'principal'): Tenancy {
  return isolation === 'session' && client.sessionId !== null
    ? { kind: 'session', sessionId: client.sessionId }
    : {
        kind: 'principal',
        principal: client.principal.name,
        handle: isolation === 'session' ? client.handle : null,
      };
}
