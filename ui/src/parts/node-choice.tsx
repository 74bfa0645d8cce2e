import { listNodes } from '../api/operations.ts';
import { route, setQuery } from '../router.ts';
import { useReading } from './reading.ts';

interface NodeChoiceProps {
  /** Only these nodes; the first is meant where none is chosen and the page's own is not among them. */
  readonly among?: readonly string[];
  /** Where none is chosen, all are meant. */
  readonly orAll?: boolean;
}

/** Which node of a cluster the page is about, in its address; nothing where there is no choice. */
export function NodeChoice({ among, orAll = false }: NodeChoiceProps) {
  const found = useReading(() => listNodes({}), '', { lists: ['nodes'] });
  const all = found.value.value?.nodes ?? [];
  const nodes = among === undefined ? all : among.flatMap((name) => all.find(({ node }) => node === name) ?? []);
  const meant = orAll ? undefined : (nodes.find(({ here }) => here) ?? nodes[0])?.node;
  const chosen = route.value.query.get('node') ?? '';
  if (nodes.length < 2) return null;
  return (
    <label class="toolbar">
      Of the node{' '}
      <select
        value={chosen === meant ? '' : chosen}
        onChange={(event) => setQuery({ node: event.currentTarget.value })}
      >
        {orAll ? <option value="">all nodes</option> : null}
        {nodes.map(({ node, peer }) => (
          <option key={peer} value={node === meant ? '' : node}>
            {node}
          </option>
        ))}
      </select>
    </label>
  );
}
