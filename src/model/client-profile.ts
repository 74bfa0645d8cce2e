import type { Era, Revision } from './message.ts';
import type { Isolation, Server } from './server.ts';

/** The authenticated caller. Only credentials establish it; a name in a header or in `_meta` never does. */
export interface Principal {
  /** Stable and unique: `anonymous`, `operator` or `agent:<name>`. Sessions, caches and sealed state are bound to it. */
  readonly id: string;
  readonly name: string;
  /** Servers that this caller may see and call; null means all (S2.28: an unregistered agent), empty means none. */
  readonly servers: ReadonlySet<string> | null;
  /** Digest of the key that established it; absent where no key did, and for callers at other nodes. */
  readonly keyDigest?: string;
}

export const ANONYMOUS: Principal = { id: 'anonymous', name: 'anonymous', servers: null };
/** The person at the machine, using the control API or the command line. */
export const OPERATOR: Principal = { id: 'operator', name: 'operator', servers: null };

/** Whether the caller may see and call the server. The only code that interprets `servers: null`. */
export function mayUse(principal: Principal, server: string): boolean {
  return principal.servers === null || principal.servers.has(server);
}

/** What a client declares of itself, at `initialize` or with each stateless request. JSON texts are the client's own bytes. */
export interface ClientProfile {
  readonly principal: Principal;
  /** The client's `Mcp-Session-Id`; null for stateless clients. Never sent upstream. */
  readonly sessionId: string | null;
  /** The session ends with one stream or pipe, so it never outlives this process. */
  readonly passing?: boolean;
  readonly revision: Revision;
  /** The declared capabilities, byte for byte. The gateway declares exactly these to servers (proto:S5). */
  readonly capabilities: string;
  /** Digest of the canonical capabilities. Tool lists depend on them, so catalogues and connections are keyed by it. */
  readonly fingerprint: string;
  readonly info: string | null;
  /**
   * Lowest severity of the log messages that the client wants; null if it never set one. Then a session gets what the server
   * chooses, and a stateless client gets none.
   */
  readonly logLevel: string | null;
  /** Value of the header that the operator configured to isolate stateless clients; null without one. */
  readonly handle: string | null;
  /** Values of the request headers that the gateway forwards to servers (`forwardHeaders`), by lower-case name; absent: none. */
  readonly forwarded?: Readonly<Record<string, string>> | undefined;
}

/**
 * Which calls may share a connection. Requests of a stateful server name no call, so the gateway knows the session only on
 * a connection of that session. It treats a server of unknown era as stateful.
 */
export function isolationOf(
  { isolation, callerSeparation }: Pick<Server, 'isolation' | 'callerSeparation'>,
  era: Era | null,
): Isolation {
  return isolation ?? (era === 'stateless' && callerSeparation === undefined ? 'shared' : 'session');
}

/** Calls with the same key share a connection and a node. Session ids contain no space, so they differ from composed keys. */
export function callerKey(client: ClientProfile, isolation: Exclude<Isolation, 'shared'>): string {
  if (isolation === 'session' && client.sessionId !== null) return client.sessionId;
  const key = `${client.principal.id} ${client.fingerprint}`;
  return isolation === 'principal' || client.handle === null ? key : `${key} ${handleWord(client.handle)}`;
}

/** The key of a process of the client's own: by principal if the server asks for that, otherwise by session. */
export function ownProcessKey({ isolation }: Pick<Server, 'isolation'>, client: ClientProfile): string {
  return callerKey(client, isolation === 'principal' ? 'principal' : 'session');
}

/** The handle as one word of a key: a client cannot choose a handle that reads as the words after it. */
function handleWord(handle: string): string {
  return handle.includes(' ') ? JSON.stringify(handle) : handle;
}
