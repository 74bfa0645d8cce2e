import type { Era, Revision } from './message.ts';
import type { Isolation, Server } from './server.ts';

/**
 * The authenticated caller: an agent of the configuration, or the anonymous local user.
 * It is established by credentials only; a name in a header or in `_meta` never makes one.
 */
export interface Principal {
  /** Stable and unique: `anonymous`, or `agent:<name>`. Sessions, caches and sealed state are bound to it. */
  readonly id: string;
  /** The agent's name as configured; `anonymous` otherwise. */
  readonly name: string;
  /** Servers this caller may see and reach; null means all (S2.28: an unregistered agent), empty means none. */
  readonly servers: ReadonlySet<string> | null;
}

export const ANONYMOUS: Principal = { id: 'anonymous', name: 'anonymous', servers: null };

/** Whether the caller may see and reach the server. The one place that knows what null means. */
export function mayUse(principal: Principal, server: string): boolean {
  return principal.servers === null || principal.servers.has(server);
}

/**
 * What a client declared of itself, as upstreams may see it. Stateful clients say it once, at
 * `initialize`; stateless ones with every request. The JSON texts are the client's own bytes.
 */
export interface ClientProfile {
  readonly principal: Principal;
  /** The client's `Mcp-Session-Id`; null for stateless clients. Never sent upstream. */
  readonly sessionId: string | null;
  /** Its session ends with one stream or pipe, and so with this process at the latest. */
  readonly passing?: boolean;
  readonly revision: Revision;
  /** The declared capabilities, as written. Presented upstream as they are: not more, not less (proto:S5). */
  readonly capabilities: string;
  /** Digest of the canonical capabilities: tool lists depend on them, so catalogues and connections are keyed by it. */
  readonly fingerprint: string;
  /** The declared `clientInfo`, as written; null where the client sent none. */
  readonly info: string | null;
  /**
   * The least severe log message it wants to hear of: a session by its last `logging/setLevel`, a stateless request by
   * its `_meta`. null where it asked for none: then a session hears what the server chooses, a stateless client nothing.
   */
  readonly logLevel: string | null;
  /** Value of the header that the operator named as isolation handle for stateless clients; null without one. */
  readonly handle: string | null;
}

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
