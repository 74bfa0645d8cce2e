/**
 * The cross-era matrix with each request of a client at the next of three nodes. By hand, as long as some cells fail:
 * `node --test test/cluster/matrix/every-server.ts`, narrowed with `--test-name-pattern`.
 */
import { REVISIONS } from '../../e2e/matrix/revisions.ts';
import { runMatrix } from '../../e2e/matrix/run-matrix.ts';
import { threeNodes } from './three-nodes.ts';

for (const server of REVISIONS) runMatrix(server, 'check:C9', threeNodes);
