import { after, describe } from 'node:test';
import type { MatrixRevision } from '../../e2e/matrix/revisions.ts';
import { runMatrix } from '../../e2e/matrix/run-matrix.ts';
import { ThreeNodes } from './three-nodes.ts';

/**
 * The cross-era matrix with the requests of each client spread over three nodes: what passes on one node passes there. Every cell,
 * in two files that can run at a time; the clusters of both get one column after the other in place of the one before.
 */
export function overThreeNodes(servers: readonly MatrixRevision[]): void {
  describe('check:C9 check:H4 S0.18 the cross-era matrix, each request of a client at the next of three nodes', () => {
    const nodes = new ThreeNodes();
    after(() => nodes.dispose());
    for (const server of servers) runMatrix(server, 'check:C9', (start) => nodes.stage(start, server));
  });
}
