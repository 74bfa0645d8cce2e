import { hash } from 'node:crypto';
import type { ClientProfile } from '../../model/client-profile.ts';
import { callerKey } from '../../model/isolation.ts';
import type { Era } from '../../model/message.ts';
import type { Isolation } from '../../model/server.ts';
import type { Tenancy } from './tenancy.ts';

/** Key of the one connection everybody uses, by its era: a server may speak both. */
const SHARED_KEYS: Readonly<Record<Era, string>> = { stateful: 'shared', stateless: 'stateless shared' };

/** Of a spare. */
export const NOBODYS_KEY = '';

/**
 * The session key: which of a server's pooled connections a client's calls use. For the most common cases it costs
 * nothing.
 */
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
  return hash('sha256', key, 'hex').slice(0, 16);
}

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
