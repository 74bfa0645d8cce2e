import { hash } from 'node:crypto';
import { ANONYMOUS, type ClientProfile, callerKey } from '../../model/client-profile.ts';
import { type Era, LATEST_STATEFUL } from '../../model/message.ts';
import type { Isolation } from '../../model/server.ts';
import { fingerprint } from '../../protocol/canonical.ts';

/**
 * The owner of a connection. `spare`: no owner, opened to list the server. `shared`: all clients, so that messages which the
 * server sends unsolicited cannot be attributed; `replica`: one of several.
 */
export type Tenancy =
  | { readonly kind: 'spare' }
  | { readonly kind: 'shared'; readonly replica?: number }
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'principal'; readonly principal: string; readonly handle: string | null };

export const WARM: Tenancy = { kind: 'spare' };
export const SHARED: Tenancy = { kind: 'shared' };

/** Whether all calls of the connection belong to one session or principal. */
export function isExclusive(tenancy: Tenancy): boolean {
  return tenancy.kind === 'session' || tenancy.kind === 'principal';
}

/** Whether all calls belong to one client. Many clients may call as one principal; a handle distinguishes them. */
export function isOneClient(tenancy: Tenancy): boolean {
  return tenancy.kind === 'session' || (tenancy.kind === 'principal' && tenancy.handle !== null);
}

/** Whether it is one of several processes that all clients share. */
export function isReplica(tenancy: Tenancy): boolean {
  return tenancy.kind === 'shared' && tenancy.replica !== undefined;
}

/** The client session that owns the connection; null if its owner is not a session. */
export function sessionOf(tenancy: Tenancy): string | null {
  return tenancy.kind === 'session' ? tenancy.sessionId : null;
}

/** The tenancy of a client's own connection. A stateless client has no session; its principal is used. */
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

/** The profile presented without a client: for starts before the first client, and on shared connections. */
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

/** A pooled connection: its server and the label of its session key (never the key itself). */
export interface ConnectionKey {
  readonly server: string;
  readonly session: string;
}

/** The key as text, `server/session` (S1.2); slash and percent sign are encoded, so that the text is unique. */
export function connectionKeyText({ server, session }: ConnectionKey): string {
  return `${encoded(server)}/${encoded(session)}`;
}

function encoded(part: string): string {
  return part.replaceAll('%', '%25').replaceAll('/', '%2F');
}

/** A connection that is needed: its owner, its session key, and the profile that it presents. */
export interface WantedConnection {
  /** null if the era has to be detected. */
  readonly era: Era | null;
  readonly key: string;
  readonly tenancy: Tenancy;
  readonly profile: ClientProfile;
  /** How many connections in a row, up to this one, it replaces whose session the server dropped at once. */
  readonly dropped?: number;
}

/** Sessions in a row that a server may drop at once. */
const MAX_DROPPED = 5;
const AT_ONCE_MS = 1_000;

interface DroppedConnection {
  readonly use: { readonly served: boolean };
  readonly createdAt: number;
  readonly logLevel: string | null;
}

/** What replaces a connection whose session was dropped `now` (wall clock); null if the server drops each one unused. */
export function replacementOf(want: WantedConnection, lost: DroppedConnection, now: number): WantedConnection | null {
  const isFirst = lost.use.served || now - lost.createdAt >= AT_ONCE_MS;
  const dropped = isFirst ? 0 : (want.dropped ?? 0) + 1;
  return dropped > MAX_DROPPED ? null : { ...withLevel(want, lost), dropped };
}

/** The next connection of the session starts with the log level that the session requested on this one. */
export function withLevel(
  want: WantedConnection,
  { logLevel }: { readonly logLevel: string | null },
): WantedConnection {
  return want.tenancy.kind === 'session' ? { ...want, profile: { ...want.profile, logLevel } } : want;
}

/** Key of the connection that all clients share, by era: a server may speak both. */
const SHARED_KEYS: Readonly<Record<Era, string>> = { stateful: 'shared', stateless: 'stateless shared' };

/** The key of the warm connection. */
export const NO_SESSION = '';

/** The session key: selects the connection of a server that a client's calls use. Needs no new string in the common cases. */
export function sessionKey(client: ClientProfile, isolation: Isolation, era: Era): string {
  if (isolation === 'shared') return replicaKey(era, 1);
  const key = callerKey(client, isolation);
  return era === 'stateful' ? key : `stateless ${key}`;
}

/** The key of a replica. The first replica has the key of a single shared process. */
export function replicaKey(era: Era, replica: number): string {
  return replica === 1 ? SHARED_KEYS[era] : `${SHARED_KEYS[era]} replica ${replica}`;
}

/** The keys under which a session may have its own connection. */
export function keysOfSession(sessionId: string): readonly string[] {
  return [sessionId, `stateless ${sessionId}`];
}

/** Whether the session key is composed of this principal's id. */
export function isKeyOfPrincipal(key: string, id: string): boolean {
  const composed = key.replace(/^stateless /, '');
  return composed.startsWith(`${id} `) && FINGERPRINT.test(composed.slice(id.length + 1));
}

/** Follows the id, which may contain spaces: `agent:Sales` is not the owner of the keys of `agent:Sales Bot`. */
const FINGERPRINT = /^(?:\{\}|[0-9a-f]{16})(?: |$)/;

/** Digest of a session key that may be stored or shown: it distinguishes connections and gives no access to a session. */
export function digestOfKey(key: string): string {
  let digest = DIGESTS.get(key);
  if (digest !== undefined) return digest;
  digest = hash('sha256', key, 'hex').slice(0, 16);
  if (DIGESTS.size >= MAX_DIGESTS) DIGESTS.clear();
  DIGESTS.set(key, digest);
  return digest;
}

/** Cache: opening and ending a session needs its digest six times. */
const DIGESTS = new Map<string, string>();
const MAX_DIGESTS = 256;

/** The label of a connection in the status. */
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
