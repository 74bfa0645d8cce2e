import { GatewayError } from '../model/gateway-error.ts';
import { type ApiOperation, NODE_PARAMETER, ok, operation, problem } from './operation.ts';
import * as schemas from './schemas.ts';

const ALONE = 'This gateway is no node of a cluster.';

export const CLUSTER_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listNodes',
    method: 'GET',
    path: '/api/v1/nodes',
    summary: 'The nodes of the cluster, and servers that they define differently. Empty for a lone gateway.',
    query: NODE_PARAMETER,
    schema: schemas.NODES,
    run: (_request, { cluster }) =>
      ok({
        nodes: cluster?.nodes() ?? [],
        conflicts: cluster?.conflicts() ?? [],
        owned: cluster?.owned() ?? [],
        shared: cluster?.shared() ?? [],
      }),
  }),
  operation({
    id: 'drainNode',
    method: 'POST',
    path: '/api/v1/nodes/{name}/drain',
    summary:
      'Drains a node: it accepts nothing new, finishes its work, hands over what it owns, and exits, as SIGTERM does.',
    schema: schemas.DRAINING,
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
  }),
];
