import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { Upstreams } from '../../model/ports.ts';

/** By then the other nodes have said what they have. */
const HEARD_MS = 60_000;

/** The names of the servers there should be, at whichever node; null while that cannot be known yet. */
export function desiredNames(
  own: () => DesiredState,
  clock: Clock,
  everywhere: () => Upstreams | null,
): () => ReadonlySet<string> | null {
  const since = clock.now();
  return () => {
    const all = everywhere();
    const names = [...own().servers.keys()];
    if (all === null) return new Set(names);
    if (clock.now() - since < HEARD_MS) return null;
    return new Set([...names, ...all.servers().map(({ name }) => name)]);
  };
}
