import { GatewayError } from '../model/gateway-error.ts';
import { type Operation, ok, problem } from './operation.ts';
import { count, list, object, text } from './schema-parts.ts';

const NODE = object({
  node: text,
  peer: { type: 'string', description: 'Who it is on the bus; new with every start.' },
  here: { type: 'boolean', description: 'The node that was asked.' },
  state: { enum: ['joining', 'ready', 'fenced', 'draining'] },
  version: text,
  protocols: { type: 'array', items: { type: 'integer' }, description: 'The oldest and the newest that it speaks.' },
  epoch: { type: 'string', description: 'Of its lease; empty without one.' },
  calls: { ...count, description: 'Calls of other nodes that it serves at the moment.' },
  startedAt: { type: 'string', format: 'date-time' },
  servers: { ...list(text), description: 'Of its own files.' },
});

const CONFLICT = object({
  server: text,
  sides: { ...list(list(text)), description: 'The nodes of each definition, those first that calls go to.' },
});

const ALONE = 'This gateway is no node of a cluster.';

/** Nodes of the cluster: seen, and sent home. */
export const CLUSTER_OPERATIONS: readonly Operation[] = [
  {
    id: 'listNodes',
    method: 'GET',
    path: '/api/v1/nodes',
    summary: 'The nodes of the cluster, and servers that they define differently. Empty for a lone gateway.',
    schema: object({ nodes: list(NODE), conflicts: list(CONFLICT) }),
    run: (_request, { cluster }) => ok({ nodes: cluster?.nodes() ?? [], conflicts: cluster?.conflicts() ?? [] }),
  },
  {
    id: 'drainNode',
    method: 'POST',
    path: '/api/v1/nodes/{name}/drain',
    summary: 'Has a node take nothing new, finish what it does, hand over what it owns and end, as SIGTERM does.',
    schema: object({ draining: text }),
    errors: { 404: `There is no node of that name. ${ALONE}`, 503: 'The node does not answer.' },
    async run({ name }, { cluster }) {
      if (cluster === null) return problem(404, 'no_cluster', ALONE);
      try {
        if (await cluster.drain(name)) return ok({ draining: name });
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        return problem(503, 'node_silent', error.message);
      }
      return problem(404, 'node_unknown', `there is no node named ${JSON.stringify(name.slice(0, 64))}`);
    },
  },
];
