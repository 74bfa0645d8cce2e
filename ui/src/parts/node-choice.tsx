import { listNodes } from '../api/operations.ts';
import { route, setQuery } from '../router.ts';
import { useReading } from './reading.ts';

/** Which node of a cluster the page is about, in its address; nothing for a lone gateway. */
export function NodeChoice() {
  const found = useReading(() => listNodes({}), '', { lists: ['nodes'] });
  const nodes = found.value.value?.nodes ?? [];
  if (nodes.length < 2) return null;
  return (
    <label class="toolbar">
      Of the node{' '}
      <select
        value={route.value.query.get('node') ?? ''}
        onChange={(event) => setQuery({ node: event.currentTarget.value })}
      >
        {nodes.map(({ node, peer, here }) => (
          <option key={peer} value={here ? '' : node}>
            {node}
          </option>
        ))}
      </select>
    </label>
  );
}
