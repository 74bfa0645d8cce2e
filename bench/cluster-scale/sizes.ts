import type { Options } from '../options.ts';

/** Servers with this name prefix announce changes of their lists. */
export const LIVE = 'live';
export const TOOLS_EACH = 2;
/** How many servers each node has that no other node has. */
export const OWN_EACH = 20;
/** With ten nodes on one thread, the nodes blocked each other's leases from 30 nodes on. */
export const NODES_EACH_PROCESS = 4;
export const SECRET = 'a secret of the benchmark, of no worth to anybody';

export type Sizes = Options['scale'];

/** The servers in the file of every node. */
export function sharedNames(servers: number): string[] {
  return Array.from({ length: servers }, (_, n) => `${n === 0 ? LIVE : 'shared'}-${n}`);
}

/** The servers that only this node has. */
export function ownNames(node: number): string[] {
  return Array.from({ length: OWN_EACH }, (_, n) => `${n === 0 ? LIVE : 'own'}-${node}-${n}`);
}

/** Definitions: each an HTTP server at one of the upstream processes, started with the node, not probed. */
export function definitions(names: readonly string[], ports: readonly number[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { type: 'http', url: urlOf(name, ports), probeMs: 0 }]));
}

export function urlOf(name: string, ports: readonly number[], path = 'mcp'): string {
  const port = ports[Number(name.slice(name.lastIndexOf('-') + 1)) % ports.length];
  return `http://127.0.0.1:${port}/${path}/${name}`;
}
