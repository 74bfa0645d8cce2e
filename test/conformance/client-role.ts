/**
 * The client that the official suite runs in client role: `node client-role.ts stateful|stateless <url>`, where the URL
 * is that of the suite's server. It starts the gateway in front of that server and drives it with a thin SDK client of
 * the era named, so that the suite tests the gateway. The suite judges only by the requests at its server.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const [era = '', url = ''] = process.argv.slice(2);
const context: Json = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
const SCENARIO = process.env['MCP_CONFORMANCE_SCENARIO'] ?? '';
/** Accepts any JSON, so that the client gets the results of the gateway unchanged. */
const ANYTHING = { '~standard': { version: 1, vendor: 'suite', validate: (value: unknown) => ({ value }) } } as never;

const MAX_LOGINS = 3;
let begun = 0;

const gateway = await RunningGateway.start({
  config: { mcpServers: { suite: { type: 'http', url, ...authOf(context) } } },
});
try {
  if (SCENARIO.startsWith('auth/')) await signIn();
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
} catch (error) {
  console.error(`the gateway wrote:\n${gateway.stderr}`);
  throw error;
} finally {
  await gateway.dispose();
}

/** Signs in again if a call asks for it, for example because it needs more scopes; twice at most. */
async function signingIn(call: () => Promise<Json>): Promise<Json> {
  for (let logins = 0; ; logins++) {
    const answer = await call().catch((error: Json) => ({ error }));
    const code = answer.error?.code ?? answer._meta?.['trunkline/error']?.code;
    if (code !== 53006 || logins === 2) {
      if (answer.error instanceof Error) throw answer.error;
      return answer;
    }
    await signIn();
  }
}

/** The `auth` settings that an operator would write for a scenario that provides credentials. */
function authOf(given: Json): Json {
  const own = {
    // The suite wants this one document, which no server has; the gateway's own is at its public URL.
    clientId:
      given.client_id ??
      (SCENARIO === 'auth/basic-cimd' ? 'https://conformance-test.local/client-metadata.json' : undefined),
    clientSecret: given.client_secret,
    privateKey: given.private_key_pem,
    subjectToken: given.idp_id_token ?? given.valid_jwt,
    idpTokenEndpoint: given.idp_token_endpoint,
    idpClientId: given.idp_client_id,
  };
  const grants: Record<string, string> = {
    'auth/client-credentials-jwt': 'client_credentials',
    'auth/client-credentials-basic': 'client_credentials',
    'auth/enterprise-managed-authorization': 'enterprise_managed',
    'auth/wif-jwt-bearer': 'workload_identity',
  };
  const dpop = SCENARIO.startsWith('auth/dpop') ? { dpop: true } : {};
  const auth = { ...own, ...dpop, ...(grants[SCENARIO] === undefined ? {} : { grant: grants[SCENARIO] }) };
  const keys = Object.entries(auth).filter(([, value]) => value !== undefined);
  return keys.length === 0 ? {} : { auth: Object.fromEntries(keys) };
}

/** A user who consents to everything: the gateway gets the redirect that the authorization server answers. */
async function signIn(again = true): Promise<void> {
  if (authOf(context).auth?.grant !== undefined) return gateway.ready('suite');
  // A user gives up after some logins.
  if (++begun > MAX_LOGINS) return;
  const begin = JSON.stringify({ redirectUri: 'http://127.0.0.1:1/callback' });
  const login = await gateway.control<Json>('/api/v1/servers/suite/login', 'POST', begin);
  const answer = await fetch(login.url, { redirect: 'manual' });
  const location = answer.headers.get('location');
  if (location === null) throw new Error(`the authorization server answers ${answer.status}`);
  const url = new URL(location, login.url).href;
  await gateway.control('/api/v1/login-redirects', 'POST', JSON.stringify({ url }));
  for (const end = performance.now() + 10_000; performance.now() < end; ) {
    const { state } = await gateway.control<Json>('/api/v1/servers/suite');
    if (state === 'running' || state === 'connected') return;
    // The authorization server has changed: the user signs in at the other one.
    if (state === 'auth_required' && again) return signIn(false);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Uses everything that is offered: tools with the arguments of the suite, or with arguments that fit their schema. */
async function useAll(client: Client): Promise<void> {
  const request = (method: string, params = {}): Promise<Json> =>
    signingIn(() => client.request({ method, params }, ANYTHING));
  const { tools }: Json = await request('tools/list');
  const wanted: readonly Json[] | undefined = context.toolCalls;
  for (const call of wanted ?? tools.map((tool: Json) => ({ name: tool.name, arguments: argumentsFor(tool, tools) }))) {
    const toolDefinition = tools.find(({ name }: Json) => name === call.name);
    await said(
      call.name,
      signingIn(() => client.callTool(call, { toolDefinition })),
    );
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
