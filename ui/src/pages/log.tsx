import { Command } from '../parts/command.tsx';
import { LogView } from '../parts/log-view.tsx';
import { NodeChoice } from '../parts/node-choice.tsx';
import { route, setQuery } from '../router.ts';

/** The log of all nodes, or of one: of the servers and the gateway, or of the gateway alone. */
export default function Log() {
  const { query } = route.value;
  const isGateway = query.get('of') === 'gateway';
  const node = query.get('node') ?? undefined;
  return (
    <>
      <h1>Log</h1>
      <label class="toolbar">
        Written by{' '}
        <select value={isGateway ? 'gateway' : ''} onChange={(event) => setQuery({ of: event.currentTarget.value })}>
          <option value="">the gateway and the servers</option>
          <option value="gateway">the gateway, of itself</option>
        </select>
      </label>
      <NodeChoice orAll />
      <p>
        <Command text={`trunkline logs -f${isGateway ? ' --json | grep \'"server":""\'' : ''}`} />
      </p>
      <LogView key={`${isGateway} ${node}`} label="Log" server={isGateway ? '' : null} node={node} />
    </>
  );
}
