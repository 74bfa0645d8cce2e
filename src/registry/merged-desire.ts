import type { DesiredState } from '../model/desired-state.ts';
import { foldedName } from '../model/names.ts';
import type { Server } from '../model/server.ts';

/** Where a desired server comes from, and the run-time decisions about it. */
export interface Provenance {
  readonly source: 'file' | 'store' | 'temporary' | 'program';
  readonly suspended: boolean;
  /** Of a stored server, also one that a file hides: the revision that `change` and `remove` may expect. */
  readonly revision: number | null;
  readonly expiresAt: number | null;
  readonly sessionId: string | null;
}

export function placeOf({ origin: { file, line } }: Server): string {
  return line > 0 ? `${file}:${line}` : file;
}

export function shadowReason(name: string, by: string): string {
  return by === name
    ? 'a file has a server of this name, which wins'
    : `clients would confuse it with ${by}, which wins`;
}

/** The servers of the other nodes of a cluster, as this node knows them. */
export interface PeerServers {
  /** A server that this node lacks, and the names of the nodes that have it; null if there is none. */
  server(name: string): { readonly server: Server; readonly nodes: readonly string[] } | null;
  /** The nodes that have a different server under its name, or under a name that clients would confuse with it. */
  against(server: Server): readonly string[];
}

/** A stored server that does not run, because a file has a server with a name that clients would confuse with it. */
export interface Shadowed {
  readonly name: string;
  readonly by: string;
}

/**
 * Merges files, servers added at run time and suspensions. Of two servers that clients would confuse, that of the file runs, and
 * the other is reported. Pure.
 */
export function mergeDesired(files: DesiredState, added: Iterable<Server>, suspended: (name: string) => boolean) {
  const servers = new Map(files.servers);
  const taken = new Map([...servers.keys()].map((name) => [foldedName(name), name]));
  const shadowed: Shadowed[] = [];
  let { maxTimeoutMs } = files;
  for (const server of added) {
    const by = taken.get(foldedName(server.name));
    if (by !== undefined) {
      shadowed.push({ name: server.name, by });
      continue;
    }
    taken.set(foldedName(server.name), server.name);
    servers.set(server.name, server);
    maxTimeoutMs = Math.max(maxTimeoutMs, server.timeoutMs, ...server.toolTimeoutMs.values());
  }
  for (const [name, server] of servers) {
    if (server.enabled && suspended(name)) servers.set(name, { ...server, enabled: false });
  }
  return { state: { ...files, servers, maxTimeoutMs }, shadowed };
}
