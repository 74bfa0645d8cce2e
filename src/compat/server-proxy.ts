import type { Gateway } from '../app/embedding/gateway-api.ts';
import type { Capabilities } from '../app/embedding/mcp-types.ts';
import type { ServerState } from '../model/server-state.ts';
import type { ToolMeta } from './compare-tool-lists.ts';

/** The lifecycle states of S4.5. */
export type LifecycleState = 'initializing' | 'connected' | 'degraded' | 'failed' | 'unknown';

const LIFECYCLE: Readonly<Record<ServerState, LifecycleState>> = {
  unknown: 'unknown',
  starting: 'initializing',
  running: 'connected',
  connected: 'connected',
  degraded: 'degraded',
  disconnected: 'unknown',
  failed: 'failed',
  unreachable: 'failed',
  auth_required: 'failed',
  misconfigured: 'failed',
  defect: 'failed',
  stopping: 'unknown',
  stopped: 'unknown',
  suspended: 'unknown',
};

/** Maps server states; `unknown` for servers that are not meant to run, and for texts that are no state (S4.5). */
export function lifecycleOf(state: string): LifecycleState {
  return Object.hasOwn(LIFECYCLE, state) ? LIFECYCLE[state as ServerState] : 'unknown';
}

/** The kinds of items that a server offers (S4.6). */
export interface ServerCapabilities {
  readonly tools: boolean;
  readonly resources: boolean;
  readonly prompts: boolean;
}

/** A capability that is present counts: `"tools": {}` is true (S4.6). */
export function serverCapabilities(declared: Capabilities | null): ServerCapabilities {
  const has = (name: string): boolean => declared?.[name] !== undefined && declared[name] !== null;
  return Object.freeze({ tools: has('tools'), resources: has('resources'), prompts: has('prompts') });
}

/** An immutable snapshot of a server (S4.7). Take another one for the current state. */
export interface ServerProxy {
  readonly name: string;
  readonly state: LifecycleState;
  readonly capabilities: ServerCapabilities;
  /** The tools of the last listing, in the server's order; empty unless it is connected (S4.11). */
  readonly tools: readonly ToolMeta[];
  /** Removes the server, as `unregisterServer` does. */
  close(): Promise<void>;
}

/** A snapshot of one server; null if no server has the name. */
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
