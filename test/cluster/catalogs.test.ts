import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@nats-io/transport-node';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

/** A server with 300 tools, whose texts do not compress well: about 260 KB. */
const SERVER = `
const { createHash } = require('node:crypto');
const words = (i) => Array.from({ length: 20 }, (_, at) => createHash('sha256').update(i + ' ' + at).digest('base64')).join(' ');
const tools = Array.from({ length: 300 }, (_, i) => ({ name: 't' + i, description: words(i), inputSchema: { type: 'object' } }));
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'many', version: '1' } },
  'tools/list': { tools },
};
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }));
});
`;
const LARGE = 200_000;

test('the catalogs of a node that starts anew are not read again where their digests are known', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const wire = await connect({ servers: nodes.nats.url });
      let bytes = 0;
      wire.subscribe('trunkline.call.>', { callback: (_, { data }) => void (bytes += data.length) });
      await wire.flush();
      const program = join(nodes.folder, 'many.cjs');
      writeFileSync(program, SERVER);
      const servers = { many: { command: process.execPath, args: [program] } };
      const b = await nodes.node('b', {});
      const a = await nodes.node('a', servers);
      /** The bytes of calls between the nodes until `b` has read the catalog of `a`. */
      const read = async (): Promise<number> => {
        await callable(b, 'many');
        const client = await WireClient.open(b.mcpUrl);
        await until(async () => (await client.toolNames()).length >= 300, 'the tools');
        await sleep(1_500);
        const said = bytes;
        bytes = 0;
        return said;
      };
      assert.ok((await read()) > LARGE, 'the first reading is seen');
      a.kill('SIGKILL');
      await a.exited;
      await until(async () => !(await b.servers()).includes('many'), 'the loss to be known');
      await nodes.node('a', servers);
      const again = await read();
      assert.ok(again < LARGE, `${again} bytes`);
      await wire.close();
    },
  ));
