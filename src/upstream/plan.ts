import type { Server } from '../model/server.ts';

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

/** Compares two sets of definitions. Pure; order is that of the names, so that equal changes are equal plans. */
export function planChanges(before: ReadonlyMap<string, Server>, after: ReadonlyMap<string, Server>): Plan {
  const start: Server[] = [];
  const stop: Server[] = [];
  const suspend: Server[] = [];
  const replace: Server[] = [];
  const update: Server[] = [];
  for (const name of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const old = before.get(name);
    const now = after.get(name);
    if (now === undefined) stop.push(old!);
    else if (old === now) continue;
    else if (old === undefined) start.push(now);
    else if (old.connectionDigest !== now.connectionDigest) replace.push(now);
    else if (old.enabled && !now.enabled) suspend.push(now);
    else if (!old.enabled && now.enabled) start.push(now);
    else update.push(now);
  }
  return { start, stop, suspend, replace, update };
}
