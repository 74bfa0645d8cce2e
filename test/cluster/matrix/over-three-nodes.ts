import { after, describe } from 'node:test';
import type { MatrixRevision } from '../../e2e/matrix/revisions.ts';
import { runMatrix } from '../../e2e/matrix/run-matrix.ts';
import { ThreeNodes } from './three-nodes.ts';

/**
 * The cross-era matrix with the requests of each client spread over three nodes; it passes there as on one node. Every cell,
 * in two files that can run at the same time; the cluster of each gets the servers of one column after the other.
 */
export function overThreeNodes(servers: readonly MatrixRevision[]): void {
  describe('check:C9 check:H4 S0.18 the cross-era matrix, each request of a client at the next of three nodes', () => {
    const nodes = new ThreeNodes();
    after(() => nodes.dispose());
    for (const server of servers) runMatrix(server, 'check:C9', (start) => nodes.stage(start, server));
  });
}
