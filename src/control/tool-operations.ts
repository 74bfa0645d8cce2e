import { LINKED_NAME } from '../model/names.ts';
import { text } from '../model/schema.ts';
import { type ApiOperation, NO_SUCH_SERVER, noSuchServer, ok, operation, problem, rawJson } from './operation.ts';
import { CLIENT_VIEWS, TOOLS } from './tool-schemas.ts';

/** The tools that clients see. */
export const TOOL_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listTools',
    method: 'GET',
    path: '/api/v1/tools',
    summary: 'The tools of all servers, or of one, under their exposed and their own names; and those not offered.',
    query: { server: { description: 'Only the tools of this server.' } },
    schema: TOOLS,
    errors: NO_SUCH_SERVER,
    async run({ query }, plane) {
      const server = query.get('server');
      if (server !== null && plane.upstreams.status(server) === null) return noSuchServer(server, plane);
      const { tools, notOffered } = await plane.tools.list(server);
      const items = tools.map(
        ({ definition, ...rest }) => `${JSON.stringify(rest).slice(0, -1)},"definition":${definition}}`,
      );
      return rawJson(`{"tools":[${items.join(',')}],"notOffered":${JSON.stringify(notOffered)}}`);
    },
  }),
  operation({
    id: 'listClientTools',
    method: 'GET',
    path: '/api/v1/tools/clients',
    summary: 'The tools as MCP clients show them to their models: names with their prefixes, limits, and costs.',
    query: {
      client: { description: 'Only this client: claude-code, codex, cursor, gemini, vscode or opencode.' },
      gateway: {
        description: "The name of the gateway in the client's file; `tl`, which `trunkline link` writes, by default.",
        schema: { ...text, description: 'a text of 1 to 64 characters', pattern: '^.{1,64}$' },
      },
      tool: { description: 'Rows of this exposed name only; the figures are of all tools.' },
    },
    schema: CLIENT_VIEWS,
    errors: { 400: 'The name of the gateway is empty or too long.', 404: 'There is no client of that name.' },
    async run({ query }, plane) {
      const client = query.get('client');
      const views = await plane.tools.listForClients(query.get('gateway') ?? LINKED_NAME, client);
      if (views.length === 0) {
        const known = (await plane.tools.listForClients(LINKED_NAME, null)).map((view) => view.client).join(', ');
        return problem(404, 'client_unknown', `no client ${JSON.stringify(client?.slice(0, 64))}; known are ${known}`);
      }
      const tool = query.get('tool');
      if (tool === null) return ok({ clients: views });
      const only = views.map((view) => ({
        ...view,
        tools: view.tools.filter(({ exposedName }) => exposedName === tool),
      }));
      return ok({ clients: only });
    },
  }),
];
