import { type ClientProfile, callerKey, isolationOf } from '../../model/client-profile.ts';
import type { Upstreams } from '../../model/ports.ts';
import { cannotStart, hasRoom, makesRoom, runs } from '../nodes/instances.ts';
import { type Place, type RemoteInstance, runsOnce } from '../nodes/routing-table.ts';
import type { Claim } from './own-claims.ts';

export const SINGLETON = 'singleton';

/** A warm connection and a stream have ends of their own. */
export function servesCalls({ key, client }: Pick<Claim, 'key' | 'client'>): boolean {
  return key === SINGLETON || client !== null;
}

/**
 * The claim that a call needs; null if any instance can serve it. Until the era is known, a server's connections may be one
 * session's.
 */
export function claimKey(place: Place, client: ClientProfile, lists: Pick<Upstreams, 'knownCatalog'>): string | null {
  if (!place.process) return null;
  return runsOnce(place) ? SINGLETON : affinity(place, client, lists);
}

/** Null if all clients share everything. */
export function affinity(
  { server }: Place,
  client: ClientProfile,
  lists: Pick<Upstreams, 'knownCatalog'>,
): string | null {
  // Every call asks: the catalog is looked up only if it decides.
  const isolation =
    server.isolation ?? isolationOf(server, lists.knownCatalog(server.name, client)?.handshake.era ?? null);
  return isolation === 'shared' ? null : callerKey(client, isolation);
}

/** Of two instances at random, the one with fewer calls. */
export function spread(
  server: string,
  instances: readonly RemoteInstance[],
  unit: () => number,
): RemoteInstance | null {
  const ready = instances.filter(({ node }) => node.state === 'ready');
  // An instance without a lease serves what needs none; a draining one leaves.
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
