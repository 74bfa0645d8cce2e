import { resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type MatrixHttpServer, startMatrixServer } from '../../fixtures/matrix/http.ts';
import { RunningGateway } from '../../support/running-gateway.ts';
import { RUNS } from './cells.ts';
import { exists, FEATURES, type Feature, impossible } from './compatibility.ts';
import type { MatrixClient } from './matrix-client.ts';
import { type MatrixRevision, REVISIONS, WIRES, type Wire } from './revisions.ts';
import { Sdk1Client } from './sdk1-client.ts';
import { Sdk2Client } from './sdk2-client.ts';

const STDIO = resolve(import.meta.dirname, '../../fixtures/matrix/stdio.ts');

/** The endpoints of a gateway with two servers behind, and which of the two is tried there. */
const PLACES: readonly { readonly endpoint: string; readonly wire: Wire }[] = [
  ...WIRES.map((wire) => ({ endpoint: `/servers/${wire}/mcp`, wire })),
  ...WIRES.map((wire) => ({ endpoint: '/mcp', wire })),
];

/**
 * One column of the matrix: a gateway in front of two servers of one revision, one over HTTP and one over stdio, and
 * every client in front of it, on either server's endpoint and on the aggregate.
 */
export function runMatrix(server: MatrixRevision): void {
  describe(`servers of ${server}`, () => {
    let http: MatrixHttpServer;
    let gateway: RunningGateway | null = null;
    before(async () => {
      http = await startMatrixServer(server);
      gateway = await RunningGateway.start({
        config: {
          mcpServers: {
            http: { type: server === '2024-11-05' ? 'sse' : 'http', url: http.url },
            stdio: { command: process.execPath, args: [STDIO, server] },
          },
        },
      });
      await gateway.ready();
    });
    after(async () => {
      await gateway?.dispose();
      await http.close();
    });

    for (const revision of REVISIONS) {
      for (const endpoint of new Set(PLACES.map((place) => place.endpoint))) {
        describe(`check:B8 check:B13 a client of ${revision} on ${endpoint}`, () => {
          let client: MatrixClient;
          before(async () => {
            const url = gateway!.mcpUrl.replace(/\/mcp$/, endpoint);
            client =
              revision === '2025-11-25' ? await Sdk1Client.connect(url) : await Sdk2Client.connect(revision, url);
          });
          after(() => client.close());

          for (const { wire } of PLACES.filter((place) => place.endpoint === endpoint)) {
            for (const feature of (Object.keys(FEATURES) as Feature[]).filter((one) => exists(one, server))) {
              const works = impossible(feature, revision, server) === null;
              test(
                `${FEATURES[feature]} with a server over ${wire}${works ? '' : ': refused'}`,
                { timeout: 20_000 },
                () => RUNS[feature]({ client, server, wire, aggregate: endpoint === '/mcp', folder: gateway!.folder }),
              );
            }
          }
        });
      }
    }
  });
}
