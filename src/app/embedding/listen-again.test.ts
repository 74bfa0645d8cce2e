import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { freePort } from '../../../test/support/free-port.ts';
import { until } from '../../../test/support/http-client.ts';
import { createGateway, memoryMessengers, openNode } from '../../index.ts';
import { openGateway } from './open-gateway.ts';

test('a gateway that cannot announce its address opens no port, and may try again', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'trunkline-listen-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const address = { port: await freePort(), controlPort: await freePort() };
  await using gateway = await createGateway({ dataDir });
  const announcement = join(dataDir, 'instance.json');
  // The announcement cannot be written, as on a full disk.
  mkdirSync(announcement);
  await assert.rejects(gateway.listen(address), { code: 'EISDIR' });
  assert.equal(gateway.listening, null);
  rmdirSync(announcement);
  const { mcpUrl } = await gateway.listen(address);
  assert.equal(new URL(mcpUrl).port, String(address.port));
  assert.equal(JSON.parse(readFileSync(announcement, 'utf8')).mcpUrl, mcpUrl);
});

test('after a listen that found its port taken, a change of the nodes is reported once', async () => {
  const messenger = memoryMessengers();
  const { gateway, components } = await openGateway({}, { messenger: messenger(), node: 'a', stored: [] });
  const taken = createServer().listen(0, '127.0.0.1');
  try {
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    await assert.rejects(gateway.listen({ port, controlPort: 0 }), { code: 'EADDRINUSE' });
    await gateway.listen({ port: 0, controlPort: 0 });
    const { journal } = components.serverEvents;
    const { end } = journal;
    let changes = 0;
    components.cluster!.listen({ nodesChanged: () => void changes++ });
    await using _other = await openNode({
      store: { list: () => ({ servers: [], next: null }) },
      messenger: messenger(),
      node: 'b',
    });
    await until(() => changes > 0);
    const reported = journal.after(end, null, 1_000).entries.filter(({ json }) => json.includes('"list":"nodes"'));
    assert.equal(reported.length, changes);
  } finally {
    taken.close();
    await gateway.close();
  }
});
