import type { Server } from '../../model/server.ts';
import { diffServers } from '../../model/servers-diff.ts';

/** The changes that make the running servers the desired ones. Each server is in at most one list. */
export interface Plan {
  /** Not running yet, or enabled again. */
  readonly start: readonly Server[];
  /** No longer desired. */
  readonly stop: readonly Server[];
  /** Disabled: defined, but must not run. */
  readonly suspend: readonly Server[];
  /** Needs new connections: the new server starts before the old one stops. */
  readonly replace: readonly Server[];
  /** Changed in a way that does not affect running connections. */
  readonly update: readonly Server[];
}

/** Derives the plan from the difference of two sets of definitions. Pure; in the order of names. */
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
