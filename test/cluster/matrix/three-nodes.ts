import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { RoundRobin } from '../../../examples/three-nodes/round-robin.ts';
import { isStateless, type MatrixRevision, WIRES, type Wire } from '../../e2e/matrix/revisions.ts';
import type { Stage } from '../../e2e/matrix/run-matrix.ts';
import { ClusterProcesses, until } from '../../support/cluster-processes.ts';
import type { RunningGateway } from '../../support/running-gateway.ts';

const NODES = ['a', 'b', 'c'];

interface Started {
  readonly nodes: ClusterProcesses;
  readonly proxy: RoundRobin;
}

/**
 * Three nodes that all have the servers, behind a proxy that sends each request to the next of them. One cluster serves all
 * columns of the matrix: the servers of a column, under their own names, replace those of the previous column.
 */
export class ThreeNodes {
  #started: Started | null = null;

  async stage(mcpServers: Readonly<Record<Wire, object>>, revision: MatrixRevision): Promise<Stage> {
    const names: Record<Wire, string> = { http: `http-${revision}`, stdio: `stdio-${revision}` };
    const servers = Object.fromEntries(WIRES.map((wire) => [names[wire], asOnOne(mcpServers[wire], wire, revision)]));
    const { nodes, proxy } = await this.#with(servers);
    return { mcpUrl: `${proxy.url}/mcp`, folder: nodes.folder, names, dispose: async () => {} };
  }

  async dispose(): Promise<void> {
    if (this.#started === null) return;
    const { nodes, proxy } = this.#started;
    await proxy[Symbol.asyncDispose]();
    await nodes.dispose();
  }

  async #with(servers: object): Promise<Started> {
    if (this.#started === null) this.#started = await start(servers);
    else for (const { gateway } of this.#started.nodes.nodes) rewrite(gateway, servers);
    const names = Object.keys(servers).sort().join();
    for (const node of this.#started.nodes.nodes) {
      // Twice as long as other waits: all servers start at once.
      const there = async () => (await node.servers()).sort().join() === names;
      await until(there, names).catch(() => until(there, `${names} on ${node.name}:\n${node.stderr.slice(-4_000)}`));
    }
    return this.#started;
  }
}

async function start(servers: object): Promise<Started> {
  const nodes = await ClusterProcesses.start();
  try {
    const starts = await Promise.allSettled(NODES.map((name) => nodes.node(name, servers)));
    for (const one of starts) if (one.status === 'rejected') throw one.reason;
    return { nodes, proxy: await RoundRobin.start(nodes.nodes.map(({ mcpUrl }) => new URL(mcpUrl).origin)) };
  } catch (error) {
    await nodes.dispose();
    throw error;
  }
}

function rewrite(gateway: RunningGateway, mcpServers: object): void {
  const config = JSON.parse(readFileSync(join(gateway.folder, 'trunkline.json'), 'utf8'));
  gateway.rewrite({ ...config, mcpServers });
}

/**
 * A local server of 2026-07-28 has one shared process on each node. The servers of the matrix keep state in it that later
 * requests read, so the cluster must have one process, as a single node has.
 */
function asOnOne(server: object, wire: Wire, revision: MatrixRevision): object {
  return wire === 'stdio' && isStateless(revision) ? { ...server, singleton: true } : server;
}
