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

/** The endpoints of a gateway in front of two servers, and the server that is tried at each. */
const PLACES: readonly { readonly endpoint: string; readonly wire: Wire }[] = [
  ...WIRES.map((wire) => ({ endpoint: `/servers/${wire}/mcp`, wire })),
  ...WIRES.map((wire) => ({ endpoint: '/mcp', wire })),
];

/** The endpoint for the clients of the matrix: one gateway, or a setup that must behave like one. */
export interface Stage {
  readonly mcpUrl: string;
  /** For results that a server can report in no other way. */
  readonly folder: string;
  /** The name of the server over each wire, if it is not the name of the wire. */
  readonly names?: Readonly<Record<Wire, string>>;
  dispose(): Promise<void>;
}

/** Starts the stage with these servers, and waits until all are ready. */
export type StartStage = (mcpServers: Readonly<Record<Wire, object>>) => Promise<Stage>;

const oneNode: StartStage = async (mcpServers) => {
  const gateway = await RunningGateway.start({ config: { mcpServers } });
  await gateway.ready();
  return gateway;
};

/**
 * One column of the matrix: a gateway in front of two servers of one revision, one over HTTP and one over stdio, and
 * every client in front of it, on either server's endpoint and on the aggregate. `proves`: the ids of what it shows.
 */
export function runMatrix(server: MatrixRevision, proves = 'check:B8 check:B13', start: StartStage = oneNode): void {
  describe(`servers of ${server}`, () => {
    let http: MatrixHttpServer;
    let stage: Stage | null = null;
    before(async () => {
      http = await startMatrixServer(server);
      stage = await start({
        http: { type: server === '2024-11-05' ? 'sse' : 'http', url: http.url },
        stdio: { command: process.execPath, args: [STDIO, server] },
      });
    });
    after(async () => {
      await stage?.dispose();
      await http.close();
    });

    for (const revision of REVISIONS) {
      for (const endpoint of new Set(PLACES.map((place) => place.endpoint))) {
        describe(`${proves} a client of ${revision} on ${endpoint}`, () => {
          let client: MatrixClient;
          before(async () => {
            const path = endpoint.replace(/http|stdio/, (wire) => nameOf(stage!, wire as Wire));
            const url = stage!.mcpUrl.replace(/\/mcp$/, path);
            client =
              revision === '2025-11-25' ? await Sdk1Client.connect(url) : await Sdk2Client.connect(revision, url);
          });
          after(() => client.close());

          for (const { wire } of PLACES.filter((place) => place.endpoint === endpoint)) {
            for (const feature of (Object.keys(FEATURES) as Feature[]).filter((one) => exists(one, server))) {
              const works = impossible(feature, revision, server) === null;
              test(`${FEATURES[feature]} with a server over ${wire}${works ? '' : ': refused'}`, {
                timeout: 20_000,
              }, () => {
                const { folder } = stage!;
                const name = nameOf(stage!, wire);
                return RUNS[feature]({ client, server, name, aggregate: endpoint === '/mcp', folder });
              });
            }
          }
        });
      }
    }
  });
}

function nameOf({ names }: Stage, wire: Wire): string {
  return names?.[wire] ?? wire;
}
