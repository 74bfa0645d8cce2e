import { CLIENT_LINKS } from '../model/client-links.ts';
import { type ApiOperation, ok, operation, problem } from './operation.ts';

/** How MCP clients are connected to this gateway. */
export const CLIENT_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listClients',
    method: 'GET',
    path: '/api/v1/clients',
    summary: 'How each MCP client is connected to this gateway: its command, or what its file has to hold. No keys.',
    query: { agent: { description: 'The agent as which it calls; by default one that may use all servers.' } },
    schema: CLIENT_LINKS,
    errors: { 404: 'There is no such agent.' },
    run({ query }, { clients }) {
      const agent = query.get('agent');
      const found = clients(agent);
      if (found !== null) return ok(found);
      return problem(404, 'agent_unknown', `there is no agent named ${JSON.stringify(agent!.slice(0, 64))}`);
    },
  }),
];
