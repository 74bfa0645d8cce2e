import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { getAccess, listNodes } from '../../api/operations.ts';
import { setQuery } from '../../router.ts';
import { serverList } from '../../servers.ts';
import { callerIn, REVISIONS } from './call-address.ts';

/** Who calls, in which revision, where. */
export function CallerFields({ query }: { readonly query: URLSearchParams }) {
  const callers = useSignal<readonly string[]>([]);
  const nodes = useSignal<readonly string[]>([]);
  useEffect(() => {
    getAccess().then(
      (access) => (callers.value = access.callers.map(({ name }) => name)),
      () => (callers.value = []),
    );
    listNodes().then(
      (cluster) => (nodes.value = cluster.nodes.map(({ node }) => node)),
      () => (nodes.value = []),
    );
  }, []);
  const { server, principal, revision, node } = callerIn(query);
  return (
    <fieldset class="panel caller">
      <legend>The client</legend>
      <label>
        Connected to
        <select value={server ?? ''} onChange={({ currentTarget }) => setQuery({ endpoint: currentTarget.value })}>
          <option value="">/mcp: all servers</option>
          {serverList.value.map(({ name }) => (
            <option key={name} value={name}>
              /servers/{name}/mcp
            </option>
          ))}
        </select>
      </label>
      <label>
        As
        <select value={principal ?? ''} onChange={({ currentTarget }) => setQuery({ as: currentTarget.value })}>
          <option value="">the operator, who may use everything</option>
          {callers.value.map((name) => (
            <option key={name} value={name}>
              {name === 'anonymous' ? 'a caller without a key' : `agent ${name}`}
            </option>
          ))}
        </select>
      </label>
      <label>
        Speaks
        <select value={revision} onChange={({ currentTarget }) => setQuery({ revision: currentTarget.value })}>
          {REVISIONS.map((one) => (
            <option key={one} value={one}>
              {one}
              {one === '2026-07-28' ? ', without sessions' : ''}
            </option>
          ))}
        </select>
      </label>
      {nodes.value.length < 2 ? null : (
        <label>
          At node
          <select value={node ?? ''} onChange={({ currentTarget }) => setQuery({ node: currentTarget.value })}>
            <option value="">the one of this page</option>
            {nodes.value.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      )}
    </fieldset>
  );
}
