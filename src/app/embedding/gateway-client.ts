import { OwnExchange } from '../../gateway/own-exchange.ts';
import { serverEndpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { request } from '../../protocol/compose.ts';
import { discoverRequest } from '../../protocol/handshake-results.ts';
import type { Components } from '../components.ts';
import type { Answer, Capabilities, ServerInfo, Tool, ToolArguments, ToolCallResult } from './mcp-types.ts';
import { ask, type CallOptions, callParams, listAll, parsed } from './operator-calls.ts';

/** The least time that a program waits for a server. */
const SETTLE_MS = 60_000;

/** How long to wait until a server is up and listed, or has failed: as long as its start and the listing may take. */
export function settleMs({ allUpstreams }: Pick<Components, 'allUpstreams'>, server: string): number {
  const status = allUpstreams.status(server);
  return status === null ? SETTLE_MS : Math.max(SETTLE_MS, status.startupTimeoutMs + status.definition.timeoutMs);
}

/**
 * A client of one MCP server, whatever its transport and revision (S2.5). `Gateway.client` returns one for each server,
 * `connectServer` returns a standalone one, and programs may implement it for a `Router`.
 */
export interface AgentClient {
  readonly name: string;
  /** Whether the server is up and has been listed. */
  readonly isInitialized: boolean;
  /** Name and version of the server; null before it was initialized. */
  readonly serverInfo: ServerInfo | null;
  /** The tools as listed last, in the server's order; a failed `refreshTools` changes nothing. */
  readonly tools: readonly Tool[];
  /** Starts the server if necessary, negotiates a revision and lists the tools. Further calls do nothing. */
  initialize(): Promise<ServerInfo>;
  /** Asks the server for its tools, all pages of them. Rejects if it does not answer. */
  refreshTools(): Promise<readonly Tool[]>;
  /** `tool` is its name at the server. Rejects with GatewayError or ServerError; `isError` is a failure that the tool reports. */
  callTool(tool: string, args?: ToolArguments, options?: CallOptions): Promise<Answer<ToolCallResult>>;
}

/** An `AgentClient` for a server of the gateway, at whichever node that runs (S2.5). */
export class GatewayClient implements AgentClient {
  readonly name: string;
  readonly #components: Components;
  #listed: { readonly catalog: ServerCatalog | null; readonly tools: readonly Tool[] } | null = null;

  constructor(name: string, components: Components) {
    this.name = name;
    this.#components = components;
  }

  get isInitialized(): boolean {
    return this.#catalog() !== null && this.#components.allUpstreams.status(this.name)?.initialized === true;
  }

  get serverInfo(): ServerInfo | null {
    const text = this.#catalog()?.handshake.serverInfo ?? null;
    return text === null ? null : (JSON.parse(text) as ServerInfo);
  }

  /** As the server declared them; null before its first handshake. */
  get capabilities(): Capabilities | null {
    const text = this.#catalog()?.handshake.capabilities;
    return text === undefined ? null : (JSON.parse(text) as Capabilities);
  }

  get tools(): readonly Tool[] {
    const catalog = this.#catalog();
    // The catalogue is newer than the last `refreshTools`: the server announced changed tools.
    if (this.#listed === null || this.#listed.catalog !== catalog) {
      const items = catalog?.lists.tools.items ?? [];
      this.#listed = { catalog, tools: items.map(({ bytes }) => JSON.parse(bytes.toString()) as Tool) };
    }
    return this.#listed.tools;
  }

  async initialize(): Promise<ServerInfo> {
    const { gateway, operator } = this.#components;
    const waitMs = settleMs(this.#components, this.name);
    const view = await gateway.handshake(serverEndpoint(this.name), operator.profile, waitMs);
    if (view instanceof GatewayError) throw view;
    return JSON.parse(view.serverInfo) as ServerInfo;
  }

  async refreshTools(): Promise<readonly Tool[]> {
    const { operator } = this.#components;
    await this.initialize();
    const question = { endpoint: serverEndpoint(this.name), method: 'tools/list', fresh: true };
    const tools = await listAll<Tool>(operator, question, 'tools');
    this.#listed = { catalog: this.#catalog(), tools };
    return tools;
  }

  async callTool(tool: string, args?: ToolArguments, options: CallOptions = {}): Promise<Answer<ToolCallResult>> {
    const params = callParams(tool, args, options.onProgress !== undefined);
    const question = { endpoint: serverEndpoint(this.name), method: 'tools/call', params };
    return parsed(await ask(this.#components.operator, question, options));
  }

  /** Sends `ping`, or `server/discover` to a stateless server. Resolves with the milliseconds it took. */
  async ping(): Promise<number> {
    const { operator, random, gateway } = this.#components;
    const stateless = this.#catalog()?.handshake.era === 'stateless';
    const question = stateless ? discoverRequest('1', operator.profile) : request('ping', '1', null, 'stateful');
    const exchange = new OwnExchange(`ping-${random.hex(6)}`, question, operator.profile);
    const start = performance.now();
    const outcome = await gateway.ask(this.name, exchange);
    if (outcome.kind === 'failure') throw outcome.error;
    return performance.now() - start;
  }

  #catalog(): ServerCatalog | null {
    return this.#components.allUpstreams.knownCatalog(this.name, this.#components.operator.profile);
  }
}
