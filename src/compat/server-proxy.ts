import type { Gateway } from '../app/embedding/gateway-api.ts';
import type { Capabilities } from '../app/embedding/mcp-types.ts';
import type { ServerState } from '../model/server-state.ts';
import type { ToolMeta } from './compare-tool-lists.ts';

/** How far a server is, in the words of S4.5. */
export type LifecycleState = 'initializing' | 'connected' | 'degraded' | 'failed' | 'unknown';

const LIFECYCLE: Readonly<Record<ServerState, LifecycleState>> = {
  unknown: 'unknown',
  starting: 'initializing',
  running: 'connected',
  connected: 'connected',
  degraded: 'degraded',
  disconnected: 'degraded',
  failed: 'failed',
  unreachable: 'failed',
  auth_required: 'failed',
  misconfigured: 'failed',
  defect: 'failed',
  stopping: 'unknown',
  stopped: 'unknown',
  suspended: 'unknown',
};

/** Our states in four words; `unknown` for what is not meant to run, and for words that are no state (S4.5). */
export function lifecycleOf(state: string): LifecycleState {
  return Object.hasOwn(LIFECYCLE, state) ? LIFECYCLE[state as ServerState] : 'unknown';
}

/** What a server offers at all (S4.6). */
export interface ServerCapabilities {
  readonly tools: boolean;
  readonly resources: boolean;
  readonly prompts: boolean;
}

/** By presence: `"tools": {}` is a yes (S4.6). */
export function serverCapabilities(declared: Capabilities | null): ServerCapabilities {
  const has = (name: string): boolean => declared?.[name] !== undefined && declared[name] !== null;
  return Object.freeze({ tools: has('tools'), resources: has('resources'), prompts: has('prompts') });
}

/** A server at one moment (S4.7). It never changes: ask again for the next moment. */
export interface ServerProxy {
  readonly name: string;
  readonly state: LifecycleState;
  readonly capabilities: ServerCapabilities;
  /** As it last listed them, in its own order; none while it is not connected (S4.11). */
  readonly tools: readonly ToolMeta[];
  /** Takes the server away, as `unregisterServer` does. */
  close(): Promise<void>;
}

/** One server as a snapshot; null where there is none of that name. */
export function serverProxy(gateway: Gateway, name: string): ServerProxy | null {
  const status = gateway.server(name);
  const client = gateway.client(name);
  if (status === null || client === null) return null;
  const state = lifecycleOf(status.state);
  const tools = state === 'connected' ? client.tools.map(toolMeta) : [];
  const close = async (): Promise<void> => {
    await gateway.unregisterServer(name);
  };
  const capabilities = serverCapabilities(gateway.capabilities(name));
  return Object.freeze({ name, state, capabilities, tools: Object.freeze(tools), close });
}

/** All servers, sorted by name (S4.16). */
export function serverProxies(gateway: Gateway): readonly ServerProxy[] {
  return gateway.servers().flatMap(({ name }) => serverProxy(gateway, name) ?? []);
}

function toolMeta({ name, description, inputSchema }: ToolMeta): ToolMeta {
  const meta = { name, ...(description === undefined ? {} : { description }), inputSchema };
  return Object.freeze(structuredClone(meta));
}
