/**
 * The client that the official suite runs in client role: `node client-role.ts stateful|stateless <url>`, where the URL
 * is that of the suite's server. It starts the gateway in front of that server and drives it with a thin SDK client of
 * the era named, so that what the suite sees is the gateway. The suite judges by what reaches its server alone.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const [era = '', url = ''] = process.argv.slice(2);
const context: Json = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
/** Any JSON passes: what the gateway hands over is to be looked at as it is. */
const ANYTHING = { '~standard': { version: 1, vendor: 'suite', validate: (value: unknown) => ({ value }) } } as never;

const gateway = await RunningGateway.start({ config: { mcpServers: { suite: { type: 'http', url } } } });
try {
  const client = new Client(
    { name: 'thin-client', version: '1.0.0' },
    {
      capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
      ...(era === 'stateless' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {}),
    },
  );
  client.setRequestHandler('elicitation/create', ({ params }) => ({ action: 'accept', content: defaultsOf(params) }));
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.serverUrl('suite'))));
  await useAll(client);
  await client.close();
} finally {
  await gateway.dispose();
}

/** Uses everything that is offered, tools with the arguments that the suite wants or with whatever their schema takes. */
async function useAll(client: Client): Promise<void> {
  const request = (method: string, params = {}): Promise<Json> => client.request({ method, params }, ANYTHING);
  const { tools }: Json = await request('tools/list');
  const wanted: readonly Json[] | undefined = context.toolCalls;
  for (const call of wanted ?? tools.map((tool: Json) => ({ name: tool.name, arguments: argumentsFor(tool, tools) }))) {
    const toolDefinition = tools.find(({ name }: Json) => name === call.name);
    await said(call.name, client.callTool(call, { toolDefinition }));
  }
  for (const { uri } of (await said('resources', request('resources/list')))?.resources ?? []) {
    await said(uri, request('resources/read', { uri }));
  }
  for (const { name } of (await said('prompts', request('prompts/list')))?.prompts ?? []) {
    await said(name, request('prompts/get', { name }));
  }
}

/** Servers of the suite leave out what their scenario does not need, even what 2026-07-28 demands; SDK 2 throws then. */
async function said(what: string, answer: Promise<Json>): Promise<Json> {
  try {
    return await answer;
  } catch (cause) {
    console.error(`${what}: ${(cause as Error).message}`);
    return null;
  }
}

function argumentsFor(tool: Json, tools: readonly Json[]): Json {
  if (tool.name === 'json_schema_echo') return { schema: tools.find(({ name }) => name !== tool.name).inputSchema };
  const properties: Record<string, Json> = tool.inputSchema.properties ?? {};
  return Object.fromEntries(Object.entries(properties).map(([name, { type }]) => [name, type === 'string' ? 'x' : 1]));
}

function defaultsOf(params: Json): Json {
  const properties: Record<string, Json> = params.requestedSchema?.properties ?? {};
  const given = Object.entries(properties).filter(([, schema]) => 'default' in schema);
  return Object.fromEntries(given.map(([name, schema]) => [name, schema.default]));
}
