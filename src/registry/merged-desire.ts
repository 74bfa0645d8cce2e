import type { DesiredState } from '../model/desired-state.ts';
import { foldedName } from '../model/names.ts';
import type { Server } from '../model/server.ts';

/** Where a desired server comes from, and what was decided about it at run time. */
export interface Provenance {
  readonly source: 'file' | 'store' | 'temporary' | 'program';
  readonly suspended: boolean;
  /** Of a stored server: what `change` and `remove` may demand. */
  readonly revision: number | null;
  readonly expiresAt: number | null;
  readonly sessionId: string | null;
}

export function placeOf({ origin: { file, line } }: Server): string {
  return line > 0 ? `${file}:${line}` : file;
}

export function whose(name: string, by: string): string {
  return by === name
    ? 'a file has a server of this name, which wins'
    : `clients would confuse it with ${by}, which wins`;
}

/** What the other nodes of a cluster have, as this one knows it. */
export interface ServersElsewhere {
  /** The server of that name that this node has not, and the names of the nodes that have it; null where there is none. */
  server(name: string): { readonly server: Server; readonly nodes: readonly string[] } | null;
  /** The nodes that mean something else by its name, or by one that clients would take for it. */
  against(server: Server): readonly string[];
}

/** A server of the store that does not run, because a file has one that clients would take for it. */
export interface Shadowed {
  readonly name: string;
  readonly by: string;
}

/**
 * Files, servers added at run time and suspensions merged. Of two that clients would confuse the file's runs, and the
 * other is reported. Pure.
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
