import { isDeepStrictEqual } from 'node:util';
import type { Server } from './server.ts';

/** Server names by the effect of a new configuration. Each list is sorted, and each name is in one list. */
export interface ServersDiff {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** Changed without a new connection: deadlines, filters, description, enabled, … */
  readonly updated: readonly string[];
  readonly same: readonly string[];
}

/** Compares servers. The position of a definition in its file does not count. */
export function diffServers(before: ReadonlyMap<string, Server>, after: ReadonlyMap<string, Server>): ServersDiff {
  const added: string[] = [];
  const changed: string[] = [];
  const updated: string[] = [];
  const same: string[] = [];
  for (const name of [...after.keys()].sort()) {
    const old = before.get(name);
    const now = after.get(name)!;
    if (old === undefined) added.push(name);
    else if (old.connectionDigest !== now.connectionDigest) changed.push(name);
    else if (isSameServer(old, now)) same.push(name);
    else updated.push(name);
  }
  const removed = [...before.keys()].filter((name) => !after.has(name)).sort();
  return { added, removed, changed, updated, same };
}

/** Whether the servers are equal except for the position of the definition. */
export function isSameServer(one: Server, other: Server): boolean {
  return isDeepStrictEqual(withoutOrigin(one), withoutOrigin(other));
}

function withoutOrigin(server: Server): Omit<Server, 'origin' | 'transport'> {
  // `connectionDigest` covers the relevant parts of the transport.
  const { origin: _origin, transport: _transport, ...rest } = server;
  return rest;
}
