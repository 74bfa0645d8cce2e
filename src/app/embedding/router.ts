import { parsePrefixedTool } from '../../catalog/exposed-names.ts';
import { NameTable } from '../../catalog/name-table.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { toolNameFault } from '../../model/names.ts';
import type { AgentClient } from './gateway-client.ts';
import type { Answer, Tool, ToolArguments, ToolCallResult } from './mcp-types.ts';
import type { CallOptions } from './operator-calls.ts';

/** The result of `refreshTools` of one client. */
export type Refreshed =
  | { readonly name: string; readonly ok: true; readonly tools: readonly Tool[] }
  | { readonly name: string; readonly ok: false; readonly error: unknown };

const NO_BYTES = Buffer.alloc(0);

/**
 * Clients by name, and their tools as one list (S2.35). It exposes names as the gateway does, and routes calls by the same
 * table: a call of an unknown tool reaches no client.
 */
export class Router {
  readonly #clients = new Map<string, AgentClient>();

  /** Throws GatewayError INVALID_PARAMS for an invalid client, and for a name that is taken unless `replace` is set. */
  addClient(client: AgentClient, options: { readonly replace?: boolean } = {}): void {
    const missing = missingIn(client);
    if (missing !== null) throw new GatewayError('INVALID_PARAMS', `addClient: the client lacks ${missing}`);
    if (this.#clients.has(client.name) && options.replace !== true) {
      throw new GatewayError('INVALID_PARAMS', `agent ${client.name} is registered already`);
    }
    this.#clients.set(client.name, client);
  }

  /** Does not close the client: it belongs to the code that added it. False for an unknown name. */
  removeClient(name: string): boolean {
    return this.#clients.delete(name);
  }

  getClient(name: string): AgentClient | null {
    return this.#clients.get(name) ?? null;
  }

  /** Sorted by name. */
  clients(): readonly AgentClient[] {
    return [...this.#clients.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Asks all clients at once; the failure of one does not affect the results of the others. */
  refreshTools(): Promise<readonly Refreshed[]> {
    return Promise.all(
      this.clients().map(async (client): Promise<Refreshed> => {
        const { name } = client;
        try {
          return { name, ok: true, tools: await client.refreshTools() };
        } catch (error) {
          return { name, ok: false, error };
        }
      }),
    );
  }

  /**
   * All tools, by client and then in its order, under exposed names, with `[name] ` before the description. A tool without a
   * title gets its name as title.
   */
  aggregatedTools(): readonly Tool[] {
    // Of two tools of one name the first counts, as in the table.
    const tools = new Map(
      this.clients().map((client) => [
        client.name,
        new Map(client.tools.toReversed().map((tool) => [tool.name, tool])),
      ]),
    );
    return this.#table().targets.map(({ server, item, exposed }) => {
      const tool = tools.get(server)!.get(item.key)!;
      const description = `[${server}] ${tool.description ?? ''}`;
      return { ...tool, name: exposed, title: tool.title ?? tool.name, description };
    });
  }

  /** Rejects with GatewayError INVALID_PARAMS for an unknown name, and with the errors of the client. */
  async routeToolCall(name: string, args?: ToolArguments, options?: CallOptions): Promise<Answer<ToolCallResult>> {
    const target = this.#table().find(name);
    if (target === null) throw this.#unknown(name);
    return this.#clients.get(target.server)!.callTool(target.item.key, args, options);
  }

  #table(): NameTable {
    return new NameTable(
      this.clients().flatMap(({ name: server, tools }) =>
        tools
          .filter(({ name }) => toolNameFault(name) === null)
          .map(({ name }) => ({ server, item: { key: name, bytes: NO_BYTES } })),
      ),
      !this.#clients.has('mcp'),
    );
  }

  #unknown(name: string): GatewayError {
    try {
      const { server } = parsePrefixedTool(name);
      const known = this.#clients.has(server);
      return new GatewayError('INVALID_PARAMS', known ? `Unknown tool: ${name}` : `unknown agent: ${server}`);
    } catch (cause) {
      return new GatewayError('INVALID_PARAMS', (cause as Error).message, { cause });
    }
  }
}

/** Returns the first required member that a client lacks; null if it has all. */
function missingIn(client: AgentClient): string | null {
  if (typeof client?.name !== 'string' || client.name === '') return '`name`, a text that is not empty';
  if (!Array.isArray(client.tools)) return '`tools`, an array';
  const missing = (['refreshTools', 'callTool'] as const).find((member) => typeof client[member] !== 'function');
  return missing === undefined ? null : `the method \`${missing}\``;
}
