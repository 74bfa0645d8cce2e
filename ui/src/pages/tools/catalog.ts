import { computed, signal } from '@preact/signals';
import { type ClientView, type HiddenTool, listClientTools, listTools, type Tool } from '../../api/operations.ts';
import { follow, reader } from '../../parts/reading.ts';

/** What the gateway offers at the moment; null until it was read. */
export const tools = signal<readonly Tool[] | null>(null);
export const hiddenTools = signal<readonly HiddenTool[]>([]);

/** Changes of several servers in a row are read once. */
const READ_AFTER_MS = 400;

export const toolsReader = reader(
  () => listTools(),
  ({ tools: all, notOffered }) => {
    tools.value = all;
    hiddenTools.value = notOffered;
  },
);

/** Reads the tools now, and again whenever a server or what it offers changes; the returned function ends that. */
export function followTools(): () => void {
  return follow(toolsReader, {
    events: ['state', 'added', 'replaced', 'removed', 'list_item_invalid'],
    lists: ['tools', 'drift', 'configuration'],
    afterMs: READ_AFTER_MS,
  });
}

interface ServerShare {
  readonly server: string;
  readonly count: number;
  readonly tokens: number;
}

export const shares = computed<readonly ServerShare[]>(() => {
  const byServer = Map.groupBy(tools.value ?? [], ({ server }) => server);
  return [...byServer].map(([server, own]) => ({
    server,
    count: own.length,
    tokens: own.reduce((sum, tool) => sum + tool.tokens, 0),
  }));
});

/** The tools as one client has them, by exposed name. */
export interface ShownTools extends ClientView {
  readonly byName: ReadonlyMap<string, ClientView['tools'][number]>;
}

export async function readShown(client: string, gatewayName: string): Promise<ShownTools> {
  const { clients } = await listClientTools({ client, gateway: gatewayName });
  const view = clients[0]!;
  return { ...view, byName: new Map(view.tools.map((tool) => [tool.exposedName, tool])) };
}

interface ToolDefinition {
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: object;
  readonly outputSchema?: object;
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

export function definitionOf(tool: Tool): ToolDefinition {
  return tool.definition as ToolDefinition;
}

const NUMBERS = new Intl.NumberFormat('en');

export function thousands(value: number): string {
  return NUMBERS.format(value);
}
