import type { Cluster } from '../../cluster/cluster.ts';
import type { DesiredState } from '../../model/desired-state.ts';

/** By then the other nodes have said what they have. */
const HEARD_MS = 60_000;

/** The names of the servers there should be, at all nodes; null while that cannot be known yet. */
export function desiredNames(
  { servers }: Pick<DesiredState, 'servers'>,
  cluster: { readonly upstreams: Pick<Cluster['upstreams'], 'servers'> } | null,
  upMs: number,
): ReadonlySet<string> | null {
  if (cluster === null) return new Set(servers.keys());
  if (upMs < HEARD_MS) return null;
  return new Set([...servers.keys(), ...cluster.upstreams.servers().map(({ name }) => name)]);
}
