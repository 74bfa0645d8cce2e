import type { ClusterNode } from '../../chaos/cluster-node.ts';
import type { ClusterWorld } from '../../chaos/cluster-world.ts';
import type { NodeProcess } from '../../support/cluster-processes.ts';
import type { Violation } from '../ledger/check-ledger.ts';

export interface Child {
  readonly server: string;
  readonly pid: number;
}

/** Whether all nodes run, and each of them sees all nodes as ready. */
export async function allKnown({ running, nodes: places }: ClusterWorld): Promise<boolean> {
  if (running.length < places.length) return false;
  const views = await Promise.all(
    running.map((node) => node.control<{ nodes: { state: string }[] }>('/api/v1/nodes').catch(() => ({ nodes: [] }))),
  );
  return views.every(({ nodes }) => nodes.filter(({ state }) => state === 'ready').length === places.length);
}

/** The processes of local servers that a node runs now. */
export async function childrenOf(node: NodeProcess): Promise<Child[]> {
  const { servers } = await node.control<{ servers: { name: string; connections: { pid: number | null }[] }[] }>(
    '/api/v1/servers',
  );
  return servers.flatMap(({ name, connections }) =>
    connections.flatMap(({ pid }) => (pid === null ? [] : [{ server: name, pid }])),
  );
}

/** The node's view of all nodes and servers: equal on all nodes that agree. */
export async function registryOf(node: NodeProcess): Promise<string> {
  const { nodes } = await node.control<{ nodes: { id: string; state: string; servers: string[] }[] }>('/api/v1/nodes');
  const { servers } = await node.control<{ servers: { name: string }[] }>('/api/v1/servers');
  const instances = nodes.map(({ id, state, servers: advertised }) => ({ id, state, servers: [...advertised].sort() }));
  return JSON.stringify({ instances, servers: servers.map(({ name }) => name).sort() });
}

export function originOf({ process }: ClusterNode): string {
  return new URL(process?.mcpUrl ?? 'http://127.0.0.1:9').origin;
}

export function inWords(violations: readonly Violation[]): string[] {
  return violations.map(({ rule, call, text }) => `(${rule}) ${call}: ${text}`);
}
