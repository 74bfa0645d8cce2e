import { hash } from 'node:crypto';
import { ANONYMOUS, type ClientProfile, callerKey } from '../../model/client-profile.ts';
import { type Era, LATEST_STATEFUL } from '../../model/message.ts';
import type { Isolation } from '../../model/server.ts';
import { fingerprint } from '../../protocol/canonical.ts';

/**
 * Whose a connection is. `spare`: without an owner, opened to list the server. `shared`: all clients', so that nothing
 * the server sends unasked can be attributed; `replica`: one of several.
 */
export type Tenancy =
  | { readonly kind: 'spare' }
  | { readonly kind: 'shared'; readonly replica?: number }
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'principal'; readonly principal: string; readonly handle: string | null };

export const WARM: Tenancy = { kind: 'spare' };
export const SHARED: Tenancy = { kind: 'shared' };

/** All calls of the connection are of one session or principal. */
export function isExclusive(tenancy: Tenancy): boolean {
  return tenancy.kind === 'session' || tenancy.kind === 'principal';
}

/** All calls are of one conversation. A principal alone is none: many clients may call as one; its handle makes it one. */
export function isOneClient(tenancy: Tenancy): boolean {
  return tenancy.kind === 'session' || (tenancy.kind === 'principal' && tenancy.handle !== null);
}

/** One of several processes that all clients share. */
export function isReplica(tenancy: Tenancy): boolean {
  return tenancy.kind === 'shared' && tenancy.replica !== undefined;
}

/** The one client session it belongs to; null where it is not one session's. */
export function sessionOf(tenancy: Tenancy): string | null {
  return tenancy.kind === 'session' ? tenancy.sessionId : null;
}

/** The tenancy that a client's own connection has. A stateless client has no session; its principal is used. */
export function tenancyOf(client: ClientProfile, isolation: 'session' | 'principal'): Tenancy {
  return isolation === 'session' && client.sessionId !== null
    ? { kind: 'session', sessionId: client.sessionId }
    : {
        kind: 'principal',
        principal: client.principal.name,
        handle: isolation === 'session' ? client.handle : null,
      };
}

const NO_CAPABILITIES = '{}';

/** Presented where there is no client: for starts ahead of the first one, and on connections that all share. */
export function placeholderClient(info: string | null, capabilities: string = NO_CAPABILITIES): ClientProfile {
  return {
    principal: ANONYMOUS,
    sessionId: null,
    revision: LATEST_STATEFUL,
    capabilities,
    fingerprint: fingerprint(capabilities),
    info,
    logLevel: null,
    handle: null,
  };
}

/** Which pooled connection: of which server, and under which label of a session key (never the key itself). */
export interface ConnectionKey {
  readonly server: string;
  readonly session: string;
}

/** The key as text, `server/session` (S1.2); slash and percent sign are encoded, so that no two keys are one text. */
export function connectionKeyText({ server, session }: ConnectionKey): string {
  return `${encoded(server)}/${encoded(session)}`;
}

function encoded(part: string): string {
  return part.replaceAll('%', '%25').replaceAll('/', '%2F');
}

/** A connection that is needed: whose it will be, under which key, and what is presented on it. */
export interface WantedConnection {
  /** null where it is to be found out. */
  readonly era: Era | null;
  readonly key: string;
  readonly tenancy: Tenancy;
  readonly profile: ClientProfile;
}

/** Key of the one connection that all clients use, by its era: a server may speak both. */
const SHARED_KEYS: Readonly<Record<Era, string>> = { stateful: 'shared', stateless: 'stateless shared' };

/** Of a spare. */
export const NO_SESSION = '';

/** The session key: which of a server's connections a client's calls use. In the common cases it costs nothing. */
export function sessionKey(client: ClientProfile, isolation: Isolation, era: Era): string {
  if (isolation === 'shared') return replicaKey(era, 1);
  const key = callerKey(client, isolation);
  return era === 'stateful' ? key : `stateless ${key}`;
}

/** The key of one of several processes that share the calls of a server. The first has the key of an only one. */
export function replicaKey(era: Era, replica: number): string {
  return replica === 1 ? SHARED_KEYS[era] : `${SHARED_KEYS[era]} replica ${replica}`;
}

/** The keys under which a session may have a connection of its own. */
export function keysOfSession(sessionId: string): readonly string[] {
  return [sessionId, `stateless ${sessionId}`];
}

/** What of a session key may be stored or shown: enough to tell connections apart, not enough to use a session. */
export function digestOfKey(key: string): string {
  let digest = DIGESTS.get(key);
  if (digest !== undefined) return digest;
  digest = hash('sha256', key, 'hex').slice(0, 16);
  if (DIGESTS.size >= MAX_DIGESTS) DIGESTS.clear();
  DIGESTS.set(key, digest);
  return digest;
}

/** A session that is opened and ended asks for it six times in a row. */
const DIGESTS = new Map<string, string>();
const MAX_DIGESTS = 256;

/** How the status names a connection. */
export function labelOf(tenancy: Tenancy): string {
  switch (tenancy.kind) {
    case 'session':
      return `session ${digestOfKey(tenancy.sessionId).slice(0, 8)}`;
    case 'principal':
      if (tenancy.handle === null) return `principal ${tenancy.principal}`;
      return `principal ${tenancy.principal} ${digestOfKey(tenancy.handle).slice(0, 8)}`;
    case 'shared':
      return tenancy.replica === undefined ? 'shared' : `shared replica ${tenancy.replica}`;
    default:
      return tenancy.kind;
  }
}
