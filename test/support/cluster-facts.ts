import type { ClusterProcesses, NodeProcess } from './cluster-processes.ts';
import { until } from './cluster-processes.ts';

/** The answer of a counter about itself. */
export interface Who {
  readonly pid: number;
  readonly epoch: string;
  readonly count: number;
}

/** The revision in an epoch. */
export function revisionOf({ epoch }: Who): number {
  return Number(epoch.split('.').at(-1));
}

export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The node whose child this process is. */
export async function ownerOf(nodes: readonly NodeProcess[], pid: number): Promise<NodeProcess> {
  for (const node of nodes) {
    const { servers } = await node.control<{ servers: { connections: { pid: number | null }[] }[] }>('/api/v1/servers');
    if (servers.some(({ connections }) => connections.some((connection) => connection.pid === pid))) return node;
  }
  throw new Error(`no node has the process ${pid}`);
}

/** Waits until these servers are up wherever this node finds them. */
export async function callable(node: NodeProcess, ...servers: string[]): Promise<void> {
  let missing: readonly string[] = servers;
  const there = async (): Promise<boolean> => {
    const known = await node.servers();
    missing = servers.filter((server) => !known.includes(server));
    return missing.length === 0;
  };
  await until(there, `${servers.join()} on ${node.name}`).catch((cause: unknown) => {
    throw new Error(`${missing.join()} cannot be called on ${node.name}`, { cause });
  });
}

/** The outcome of a call, as a word. */
// biome-ignore lint/suspicious/noExplicitAny: what came over the wire.
export function wordOf(message: any): string {
  const error = message.error?.data ?? message.result?._meta?.['trunkline/error'];
  return error?.outcome ?? (message.result === undefined ? JSON.stringify(message) : 'RESULT');
}

/** Runs a test on a cluster; when it fails, what the nodes logged is shown. */
export async function onCluster(
  start: () => Promise<ClusterProcesses>,
  run: (nodes: ClusterProcesses) => Promise<void>,
): Promise<void> {
  const nodes = await start();
  try {
    await run(nodes);
  } catch (error) {
    for (const { name, stderr } of nodes.nodes) console.error(`--- ${name}\n${stderr.slice(-6_000)}`);
    throw error;
  } finally {
    await nodes.dispose();
  }
}
