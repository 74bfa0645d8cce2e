import { isDeepStrictEqual } from 'node:util';
import type { Server } from './server.ts';

/** Names of servers by what a new configuration means for them. Sorted, and each name is in one list. */
export interface ServersDiff {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** Take effect on the connections there are: deadlines, filters, description, enabled, … */
  readonly updated: readonly string[];
  readonly same: readonly string[];
}

/** What becomes of each server. The place of a definition in its file does not count. */
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

/** But for the place of its definition. */
export function isSameServer(one: Server, other: Server): boolean {
  return isDeepStrictEqual(withoutOrigin(one), withoutOrigin(other));
}

function withoutOrigin(server: Server): Omit<Server, 'origin' | 'transport'> {
  // What of the transport counts is in the digest.
  const { origin: _origin, transport: _transport, ...rest } = server;
  return rest;
}
