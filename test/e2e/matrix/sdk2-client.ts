import {
  Client,
  type JSONRPCNotification,
  SSEClientTransport,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { TaskClient } from '../../support/task-client.ts';
import { type Answering, Heard, type Json, type MatrixClient } from './matrix-client.ts';
import { capabilitiesOf, isStateless, type MatrixRevision } from './revisions.ts';

/** Accepts any JSON: the cells check the received message, not the SDK's view of it. */
const ANYTHING = {
  '~standard': { version: 1, vendor: 'matrix', validate: (value: unknown) => ({ value }) },
} as never;
const KNOWN_METHODS = [
  'tools/list_changed',
  'prompts/list_changed',
  'resources/list_changed',
  'resources/updated',
  'message',
  // Replaces the SDK's own handler, which drops a token at the answer: progress just before it would be lost.
  'progress',
];
const LISTS = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };

/** A client made with SDK 2 that speaks one revision and no other. */
export class Sdk2Client implements MatrixClient {
  readonly revision: MatrixRevision;
  readonly heard = new Heard();
  readonly asked: { readonly method: string; readonly params: Json }[] = [];
  answering: Answering = () => ({});
  /** Runs without the SDK: SDK 2 has no types for the results of the extension. */
  task: MatrixClient['task'] = null;
  readonly #client: Client;
  readonly #listens: { close(): Promise<void> }[] = [];
  #lastError: Json = null;

  private constructor(revision: MatrixRevision) {
    this.revision = revision;
    const capabilities = capabilitiesOf(revision);
    this.#client = new Client(
      { name: `matrix-${revision}`, version: '1.0.0' },
      {
        capabilities,
        supportedProtocolVersions: [revision],
        ...(isStateless(revision) ? { versionNegotiation: { mode: { pin: revision } } } : {}),
      },
    );
    const answer = async ({ method, params }: { method: string; params?: unknown }) => {
      this.asked.push({ method, params: params as Json });
      return this.answering(method, params) as never;
    };
    this.#client.setRequestHandler('sampling/createMessage', answer);
    this.#client.setRequestHandler('roots/list', answer);
    if ('elicitation' in capabilities) this.#client.setRequestHandler('elicitation/create', answer);
    this.#client.fallbackRequestHandler = answer;
    for (const name of KNOWN_METHODS) {
      const method = `notifications/${name}` as 'notifications/message';
      this.#client.setNotificationHandler(method, ({ params }: Pick<JSONRPCNotification, 'params'>) => {
        this.heard.add(method, params);
      });
    }
  }

  /** Connects over HTTP+SSE if the revision has no other HTTP transport. */
  static async connect(revision: MatrixRevision, mcpUrl: string): Promise<Sdk2Client> {
    const client = new Sdk2Client(revision);
    const transport =
      revision === '2024-11-05'
        ? new SSEClientTransport(new URL(mcpUrl.replace(/mcp$/, 'sse')))
        : new StreamableHTTPClientTransport(new URL(mcpUrl));
    await client.#client.connect(transport);
    if (isStateless(revision)) client.task = (name) => runTask(mcpUrl, name);
    const pass = transport.onmessage;
    transport.onmessage = (message: Json) => {
      if ('error' in message) client.#lastError = message.error;
      pass?.(message);
    };
    return client;
  }

  /** Fails with the error as it was on the wire: the SDK turns -32002 into -32602. */
  async request(method: string, params: Json, signal?: AbortSignal): Promise<Json> {
    try {
      return await this.#client.request({ method, params }, ANYTHING, signal === undefined ? {} : { signal });
    } catch (cause) {
      throw this.#lastError?.message === (cause as Error).message ? this.#lastError : cause;
    }
  }

  async watch(): Promise<void> {
    if (isStateless(this.revision)) this.#listens.push(await this.#client.listen(LISTS));
  }

  async subscribe(uri: string): Promise<void> {
    if (!isStateless(this.revision)) await this.#client.subscribeResource({ uri });
    else this.#listens.push(await this.#client.listen({ resourceSubscriptions: [uri] }));
  }

  async callLogging(level: string, name: string, args: Json): Promise<Json> {
    const params: Json = { name, arguments: args };
    if (isStateless(this.revision)) params._meta = { 'io.modelcontextprotocol/logLevel': level };
    else await this.#client.setLoggingLevel(level as 'info');
    return this.request('tools/call', params);
  }

  async close(): Promise<void> {
    for (const listen of this.#listens) await listen.close();
    await this.#client.close();
  }
}

async function runTask(mcpUrl: string, name: string): Promise<{ states: string[]; result: Json }> {
  const client = await TaskClient.open(mcpUrl, 'stateless');
  const { taskId, status } = await client.start(name);
  const { result, status: ended } = await client.outcome(taskId);
  return { states: [status, ended], result };
}
