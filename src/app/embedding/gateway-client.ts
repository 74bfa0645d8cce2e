import { OwnExchange } from '../../gateway/own-exchange.ts';
import { serverEndpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { request } from '../../protocol/compose.ts';
import { discoverRequest } from '../../protocol/handshake-results.ts';
import type { Rooms } from '../rooms.ts';
import type { Answer, Capabilities, ServerInfo, Tool, ToolArguments, ToolCallResult } from './mcp-types.ts';
import { ask, type CallOptions, callParams, listAll, parsed } from './operator-calls.ts';

/** A start may fetch a package first. */
const START_MS = 60_000;

/**
 * One MCP server as a client of it, whatever its transport and revision (S2.5). The gateway makes one for each of its
 * servers (`Gateway.client`), `connectServer` makes one that stands alone, and programs may write their own for a
 * `Router`.
 */
export interface AgentClient {
  readonly name: string;
  /** Whether the server is up and has been listed. */
  readonly isInitialized: boolean;
  /** As it names itself; null before it was initialized. */
  readonly serverInfo: ServerInfo | null;
  /** What the last `refreshTools` found; a failed one changes nothing. In the server's own order. */
  readonly tools: readonly Tool[];
  /** Starts the server if need be, agrees on a revision and lists its tools. Again: does nothing. */
  initialize(): Promise<ServerInfo>;
  /** Lists the tools, all pages of them. */
  refreshTools(): Promise<readonly Tool[]>;
  /** `tool` is the server's own name. Rejects with GatewayError or ServerError; `isError` is the tool's own failure. */
  callTool(tool: string, args?: ToolArguments, options?: CallOptions): Promise<Answer<ToolCallResult>>;
}

/** A server of the gateway, at whichever node it runs, as `AgentClient` (S2.5): all transports and revisions through the same door. */
export class GatewayClient implements AgentClient {
  readonly name: string;
  readonly #rooms: Rooms;
  #listed: { readonly catalog: ServerCatalog | null; readonly tools: readonly Tool[] } | null = null;

  constructor(name: string, rooms: Rooms) {
    this.name = name;
    this.#rooms = rooms;
  }

  get isInitialized(): boolean {
    return this.#catalog() !== null && this.#rooms.everywhere.status(this.name)?.initialized === true;
  }

  get serverInfo(): ServerInfo | null {
    const text = this.#catalog()?.handshake.serverInfo ?? null;
    return text === null ? null : (JSON.parse(text) as ServerInfo);
  }

  /** As the server declared them; null before it was met. */
  get capabilities(): Capabilities | null {
    const text = this.#catalog()?.handshake.capabilities;
    return text === undefined ? null : (JSON.parse(text) as Capabilities);
  }

  get tools(): readonly Tool[] {
    const catalog = this.#catalog();
    // A newer catalogue than the one at our own listing: the server said that its tools have changed.
    if (this.#listed === null || this.#listed.catalog !== catalog) {
      const items = catalog?.lists.tools.items ?? [];
      this.#listed = { catalog, tools: items.map(({ bytes }) => JSON.parse(bytes.toString()) as Tool) };
    }
    return this.#listed.tools;
  }

  async initialize(): Promise<ServerInfo> {
    const { gateway, operator } = this.#rooms;
    const view = await gateway.handshake(serverEndpoint(this.name), operator.profile, START_MS);
    if (view instanceof GatewayError) throw view;
    return JSON.parse(view.serverInfo) as ServerInfo;
  }

  async refreshTools(): Promise<readonly Tool[]> {
    const { operator } = this.#rooms;
    await this.initialize();
    const tools = await listAll<Tool>(operator, { endpoint: serverEndpoint(this.name), method: 'tools/list' }, 'tools');
    this.#listed = { catalog: this.#catalog(), tools };
    return tools;
  }

  async callTool(tool: string, args?: ToolArguments, options: CallOptions = {}): Promise<Answer<ToolCallResult>> {
    const params = callParams(tool, args, options.onProgress !== undefined);
    const question = { endpoint: serverEndpoint(this.name), method: 'tools/call', params };
    return parsed(await ask(this.#rooms.operator, question, options));
  }

  /** A real question to the server: `ping`, or `server/discover` where there is none. Resolves with the milliseconds. */
  async ping(): Promise<number> {
    const { operator, random, gateway } = this.#rooms;
    const stateless = this.#catalog()?.handshake.era === 'stateless';
    const question = stateless ? discoverRequest('1', operator.profile) : request('ping', '1', null, 'stateful');
    const exchange = new OwnExchange(`ping-${random.hex(6)}`, question, operator.profile);
    const start = performance.now();
    const outcome = await gateway.ask(this.name, exchange);
    if (outcome.kind === 'failure') throw outcome.error;
    return performance.now() - start;
  }

  #catalog(): ServerCatalog | null {
    return this.#rooms.everywhere.knownCatalog(this.name, this.#rooms.operator.profile);
  }
}
