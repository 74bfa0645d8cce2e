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
