import type { DesiredState } from '../model/desired-state.ts';
import { foldedName } from '../model/names.ts';
import type { Server } from '../model/server.ts';

/** A server of the store that does not run, because a file has one that clients would take for it. */
export interface Shadowed {
  readonly name: string;
  /** The server that does. */
  readonly by: string;
}

export interface Merged {
  readonly state: DesiredState;
  readonly shadowed: readonly Shadowed[];
}

/**
 * What should run: the files, what was added at run time, and what is suspended. Of two servers that clients would
 * confuse the file's runs: it is what people look at. The other stays where it is, and is told. Pure.
 */
export function mergeDesired(
  files: DesiredState,
  added: Iterable<Server>,
  suspended: (name: string) => boolean,
): Merged {
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
