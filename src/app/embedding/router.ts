import { parsePrefixedTool, toolNameFault } from '../../catalog/exposed-names.ts';
import { NameTable } from '../../catalog/name-table.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { AgentClient } from './gateway-client.ts';
import type { Answer, Tool, ToolArguments, ToolCallResult } from './mcp-types.ts';
import type { CallOptions } from './operator-calls.ts';

/** What became of one client's `refreshTools`. */
export type Refreshed =
  | { readonly name: string; readonly ok: true; readonly tools: readonly Tool[] }
  | { readonly name: string; readonly ok: false; readonly error: unknown };

const NO_BYTES = Buffer.alloc(0);

/**
 * Clients by name, and their tools as one list (S2.35). Names are exposed as the gateway exposes them, and calls are
 * routed by that table: a call of a tool that no client has reaches no client.
 */
export class Router {
  readonly #clients = new Map<string, AgentClient>();

  /** Throws GatewayError INVALID_PARAMS for what is no client, and for a name that is taken unless `replace` is set. */
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

  /** Asks all clients at once; one that fails does not hide the others' answers. */
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
   * All tools, by client and then in its order, under exposed names, with `[name] ` before the description and the
   * tool's own name as title where it has none.
   */
  aggregatedTools(): readonly Tool[] {
    // The first one counts where a name is there twice, as in the table.
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

  /** Rejects with GatewayError INVALID_PARAMS for a name that leads nowhere, and as the client does. */
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

/** The first member of a client that a program has left out; null when it is complete enough to be called. */
function missingIn(client: AgentClient): string | null {
  if (typeof client?.name !== 'string' || client.name === '') return '`name`, a text that is not empty';
  if (!Array.isArray(client.tools)) return '`tools`, an array';
  const missing = (['refreshTools', 'callTool'] as const).find((member) => typeof client[member] !== 'function');
  return missing === undefined ? null : `the method \`${missing}\``;
}
