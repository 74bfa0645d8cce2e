import type { Server } from '../../model/server.ts';
import { diffServers } from '../../model/servers-diff.ts';

/** What has to be done so that the running servers are the desired ones. Each server is in at most one list. */
export interface Plan {
  /** Not there, or there and disabled so far. */
  readonly start: readonly Server[];
  /** No longer desired. */
  readonly stop: readonly Server[];
  /** Desired, but not to run. */
  readonly suspend: readonly Server[];
  /** Needs new connections: start the new before the old is stopped. */
  readonly replace: readonly Server[];
  /** Changed in a way that running connections need not notice. */
  readonly update: readonly Server[];
}

/** What a difference of two sets of definitions means for the running side. Pure; in the order of names. */
export function planChanges(before: ReadonlyMap<string, Server>, after: ReadonlyMap<string, Server>): Plan {
  const { added, removed, changed, updated } = diffServers(before, after);
  const now = (name: string) => after.get(name)!;
  const woken = (name: string) => now(name).enabled && !before.get(name)!.enabled;
  const asleep = (name: string) => !now(name).enabled && before.get(name)!.enabled;
  return {
    start: [...added, ...updated.filter(woken)].sort().map(now),
    stop: removed.map((name) => before.get(name)!),
    suspend: updated.filter(asleep).map(now),
    replace: changed.map(now),
    update: updated.filter((name) => !woken(name) && !asleep(name)).map(now),
  };
}
