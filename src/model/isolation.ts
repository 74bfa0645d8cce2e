import type { ClientProfile } from './client-profile.ts';
import type { Era } from './message.ts';
import type { Isolation, Server } from './server.ts';

/**
 * Who may share a connection to a server: as its operator chose, otherwise as its era (null: not known yet) needs. A
 * stateful server's own requests do not name the call they belong to: whose they are is known only where the connection
 * is one session's. Until its era is known, a server may turn out to be one of those.
 */
export function isolationOf({ isolation }: Pick<Server, 'isolation'>, era: Era | null): Isolation {
  return isolation ?? (era === 'stateless' ? 'shared' : 'session');
}

/**
 * Whose state the calls of a client build on: those with the same key use the same connection, and go to the same node
 * as long as it lives. Session ids are unguessable and hold no space, so they cannot collide with the composed keys.
 */
export function callerKey(client: ClientProfile, isolation: Exclude<Isolation, 'shared'>): string {
  if (isolation === 'session' && client.sessionId !== null) return client.sessionId;
  const key = `${client.principal.id} ${client.fingerprint}`;
  return isolation === 'principal' || client.handle === null ? key : `${key} ${handleWord(client.handle)}`;
}

/** The handle as one word of a key: what follows it there cannot be part of it, whatever the client chose. */
function handleWord(handle: string): string {
  return handle.includes(' ') ? JSON.stringify(handle) : handle;
}
