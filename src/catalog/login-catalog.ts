import { NO_LIST, type ServerCatalog } from '../model/server-catalog.ts';

/** The tool that is listed in place of a server's tools until the user signs in. */
const LOGIN_TOOL = 'trunkline_login';

const made = new Map<string, ServerCatalog>();

/** The catalog of a server that needs a login. The same object for the same name. */
export function loginCatalog(server: string): ServerCatalog {
  let catalog = made.get(server);
  if (catalog === undefined) made.set(server, (catalog = newCatalog(server)));
  return catalog;
}

export function isLoginCatalog(catalog: ServerCatalog): boolean {
  return made.get(catalog.server) === catalog;
}

/** Whether the name is the gateway's own login tool, and not a tool of the server. */
export function isLoginTool(catalog: ServerCatalog | null | undefined, name: string): boolean {
  return name === LOGIN_TOOL && catalog != null && isLoginCatalog(catalog);
}

function newCatalog(server: string): ServerCatalog {
  const tool = {
    name: LOGIN_TOOL,
    title: `Sign in to ${server}`,
    description: `The server ${server} asks for a login before it lists its tools. This asks the user to sign in.`,
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  };
  const result = {
    protocolVersion: '2025-11-25',
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: server, version: '0' },
    instructions: `${server} asks for a login. Call ${LOGIN_TOOL}; its own tools are listed after that.`,
  };
  const items = [{ key: LOGIN_TOOL, bytes: Buffer.from(JSON.stringify(tool)) }];
  const tools = { ...NO_LIST, items, pages: [Buffer.from(JSON.stringify({ tools: [tool] }))] };
  return {
    server,
    fingerprint: '',
    digest: `login ${server}`,
    handshake: {
      era: 'stateful',
      revision: result.protocolVersion,
      result: Buffer.from(JSON.stringify(result)),
      serverInfo: JSON.stringify(result.serverInfo),
      capabilities: JSON.stringify(result.capabilities),
      instructions: result.instructions,
    },
    lists: { tools, prompts: NO_LIST, resources: NO_LIST, resourceTemplates: NO_LIST },
    listedAt: 0,
  };
}
