import type { Era, Revision } from './message.ts';
import type { Isolation, Server } from './server.ts';

/** The authenticated caller. Only credentials establish it; a name in a header or in `_meta` never does. */
export interface Principal {
  /** Stable and unique: `anonymous`, `operator` or `agent:<name>`. Sessions, caches and sealed state are bound to it. */
  readonly id: string;
  readonly name: string;
  /** Servers this caller may see and reach; null means all (S2.28: an unregistered agent), empty means none. */
  readonly servers: ReadonlySet<string> | null;
}

export const ANONYMOUS: Principal = { id: 'anonymous', name: 'anonymous', servers: null };
/** The person at the machine, at the control API or on the command line. */
export const OPERATOR: Principal = { id: 'operator', name: 'operator', servers: null };

/** Whether the caller may see and reach the server. The one place that knows what null means. */
export function mayUse(principal: Principal, server: string): boolean {
  return principal.servers === null || principal.servers.has(server);
}

/** What a client declared of itself: at `initialize`, or with each stateless request. JSON texts are its own bytes. */
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
  readonly info: string | null;
  /**
   * The least severe log message it wants. null where it never asked: then a session gets what the server chooses, a
   * stateless client nothing.
   */
  readonly logLevel: string | null;
  /** Value of the header that the operator named as isolation handle for stateless clients; null without one. */
  readonly handle: string | null;
  /** Values of the request headers that servers get from their callers (`forwardHeaders`), by lower-case name; absent: none. */
  readonly forwarded?: Readonly<Record<string, string>> | undefined;
}

/**
 * Who may share a connection. A stateful server's own requests name no call, so that the session is known only on a
 * connection of that session. A server of unknown era may be stateful.
 */
export function isolationOf({ isolation, apart }: Pick<Server, 'isolation' | 'apart'>, era: Era | null): Isolation {
  return isolation ?? (era === 'stateless' && apart === undefined ? 'shared' : 'session');
}

/** Calls with the same key share connection and node. Session ids hold no space and differ from composed keys. */
export function callerKey(client: ClientProfile, isolation: Exclude<Isolation, 'shared'>): string {
  if (isolation === 'session' && client.sessionId !== null) return client.sessionId;
  const key = `${client.principal.id} ${client.fingerprint}`;
  return isolation === 'principal' || client.handle === null ? key : `${key} ${handleWord(client.handle)}`;
}

/** The handle as one word of a key: what follows it there cannot be part of it, whatever the client chose. */
function handleWord(handle: string): string {
  return handle.includes(' ') ? JSON.stringify(handle) : handle;
}
