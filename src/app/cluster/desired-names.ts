import type { Cluster } from '../../cluster/cluster.ts';
import type { DesiredState } from '../../model/desired-state.ts';

/** By then the other nodes have announced their servers. */
const ANNOUNCE_WAIT_MS = 60_000;

/** Returns the names of the servers that any node should have; null until the other nodes have announced theirs. */
export function desiredNames(
  { servers }: Pick<DesiredState, 'servers'>,
  cluster: { readonly upstreams: Pick<Cluster['upstreams'], 'servers'> } | null,
  upMs: number,
): ReadonlySet<string> | null {
  if (cluster === null) return new Set(servers.keys());
  if (upMs < ANNOUNCE_WAIT_MS) return null;
  return new Set([...servers.keys(), ...cluster.upstreams.servers().map(({ name }) => name)]);
}
