import { type ClientProfile, callerKey, isolationOf } from '../../model/client-profile.ts';
import type { Upstreams } from '../../model/ports.ts';
import { canFreeCapacity, cannotStart, hasCapacity, runs } from '../nodes/instances.ts';
import { type Place, type RemoteInstance, runsOnce } from '../nodes/routing-table.ts';
import type { Claim } from './own-claims.ts';

export const SINGLETON = 'singleton';

/** False for the claims of a warm connection and of a stream, which have ends of their own. */
export function servesCalls({ key, client }: Pick<Claim, 'key' | 'client'>): boolean {
  return key === SINGLETON || client !== null;
}

/**
 * Key of the claim that a call needs; null if any instance can serve it. While the era of a server is unknown, each session may
 * need a connection of its own.
 */
export function claimKey(place: Place, client: ClientProfile, lists: Pick<Upstreams, 'knownCatalog'>): string | null {
  if (!place.process) return null;
  return runsOnce(place) ? SINGLETON : affinity(place, client, lists);
}

/** Key of the calls that must share a connection and node; null if all clients share one. */
export function affinity(
  { server }: Place,
  client: ClientProfile,
  lists: Pick<Upstreams, 'knownCatalog'>,
): string | null {
  // Every call asks: look up the catalog only if the isolation depends on it.
  const isolation =
    server.isolation ?? isolationOf(server, lists.knownCatalog(server.name, client)?.handshake.era ?? null);
  return isolation === 'shared' ? null : callerKey(client, isolation);
}

/** Picks two able instances at random and returns the less busy one. */
export function pickInstance(
  server: string,
  instances: readonly RemoteInstance[],
  unit: () => number,
): RemoteInstance | null {
  const ready = instances.filter(({ node }) => node.state === 'ready');
  // A node without a lease serves what needs none; a draining node is leaving.
  const there = ready.length > 0 ? ready : instances.filter(({ node }) => node.state !== 'draining');
  const startable = there.some(runs) ? there.filter((instance) => !cannotStart(instance)) : there;
  const roomy = startable.filter((instance) => hasCapacity(instance, server));
  const making = roomy.length > 0 ? roomy : startable.filter((instance) => canFreeCapacity(instance, server));
  const able = making.length > 0 ? making : startable;
  if (able.length === 0) return null;
  const one = able[Math.floor(unit() * able.length)]!;
  const other = able[Math.floor(unit() * able.length)]!;
  return (other.node.busy ?? 0) < (one.node.busy ?? 0) ? other : one;
}
