import { type ClientProfile, callerKey, isolationOf } from '../../model/client-profile.ts';
import type { Upstreams } from '../../model/ports.ts';
import { cannotStart, hasRoom, makesRoom, runs } from '../nodes/instances.ts';
import { type Place, type RemoteInstance, runsOnce } from '../nodes/routing-table.ts';
import type { Claim } from './own-claims.ts';

/** The one process, or set of processes, of a server that runs once in the cluster. */
export const SINGLETON = 'singleton';

/** Whether calls run under it: not what serves no client yet, and not a stream. Those have ends of their own. */
export function servesCalls({ key, client }: Pick<Claim, 'key' | 'client'>): boolean {
  return key === SINGLETON || client !== null;
}

/**
 * What a call needs that only one node may own: the processes of one session, of one principal, of a singleton. null:
 * nothing; any instance can serve it. Until the era of a server is known, its connections may turn out to be one session's.
 */
export function claimKey(place: Place, client: ClientProfile, lists: Pick<Upstreams, 'knownCatalog'>): string | null {
  if (!place.process) return null;
  return runsOnce(place) ? SINGLETON : affinity(place, client, lists);
}

/** Whose state at the server the client's calls build on; null where all clients share everything. */
export function affinity(
  { server }: Place,
  client: ClientProfile,
  lists: Pick<Upstreams, 'knownCatalog'>,
): string | null {
  // Every call asks this: what is known of the server is looked up only where it decides.
  const isolation =
    server.isolation ?? isolationOf(server, lists.knownCatalog(server.name, client)?.handshake.era ?? null);
  return isolation === 'shared' ? null : callerKey(client, isolation);
}

/** The instance that a new key of the server goes to: of two taken at random, the one with less to do. */
export function spread(
  server: string,
  instances: readonly RemoteInstance[],
  unit: () => number,
): RemoteInstance | null {
  const ready = instances.filter(({ node }) => node.state === 'ready');
  // One without a lease still serves what needs none; one that drains is leaving.
  const there = ready.length > 0 ? ready : instances.filter(({ node }) => node.state !== 'draining');
  const startable = there.some(runs) ? there.filter((instance) => !cannotStart(instance)) : there;
  const roomy = startable.filter((instance) => hasRoom(instance, server));
  const making = roomy.length > 0 ? roomy : startable.filter((instance) => makesRoom(instance, server));
  const able = making.length > 0 ? making : startable;
  if (able.length === 0) return null;
  const one = able[Math.floor(unit() * able.length)]!;
  const other = able[Math.floor(unit() * able.length)]!;
  return busyness(other) < busyness(one) ? other : one;
}

function busyness({ node }: RemoteInstance): number {
  return node.busy ?? node.load;
}
