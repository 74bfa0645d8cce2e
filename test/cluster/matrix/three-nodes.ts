import { RoundRobin } from '../../../examples/three-nodes/round-robin.ts';
import type { StartStage } from '../../e2e/matrix/run-matrix.ts';
import { callable } from '../../support/cluster-facts.ts';
import { ClusterProcesses } from '../../support/cluster-processes.ts';

/** Three nodes that all have the servers, behind a proxy that sends each request to the next of them. */
export const threeNodes: StartStage = async (mcpServers) => {
  const nodes = await ClusterProcesses.start();
  const ends: (() => Promise<void>)[] = [() => nodes.dispose()];
  const dispose = async (): Promise<void> => {
    for (const end of ends.splice(0)) await end();
  };
  try {
    for (const name of ['a', 'b', 'c']) await nodes.node(name, mcpServers);
    for (const node of nodes.nodes) await callable(node, ...Object.keys(mcpServers));
    const proxy = await RoundRobin.start(nodes.nodes.map(({ mcpUrl }) => new URL(mcpUrl).origin));
    ends.unshift(() => proxy[Symbol.asyncDispose]());
    return { mcpUrl: `${proxy.url}/mcp`, folder: nodes.folder, dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
};
