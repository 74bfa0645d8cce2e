import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../support/cluster-processes.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const NAME = 'tools.partner.example.com';

/** In a mount namespace of its own the name of a public host leads to this machine. Needs root, as the CI has. */
function hostsFile(folder: string): readonly string[] {
  const hosts = join(folder, 'hosts');
  writeFileSync(hosts, `127.0.0.1 localhost\n127.0.0.1 ${NAME}\n`);
  return ['unshare', '-m', 'sh', '-c', `mount --bind ${hosts} /etc/hosts && exec "$@"`, 'sh'];
}

test('security:8 a server added with the control token, whose public name leads to this machine, is never connected, also after a restart', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-private-'));
  const under = hostsFile(folder);
  if (spawnSync(under[0]!, [...under.slice(1), 'true']).status !== 0) {
    t.skip('this machine allows no mount namespace');
    return;
  }
  let requests = 0;
  const inside = createServer((_request, response) => {
    requests++;
    response.writeHead(500).end();
  });
  await new Promise<void>((done) => inside.listen(0, '127.0.0.1', done));
  const url = `http://${NAME}:${(inside.address() as AddressInfo).port}/mcp`;
  const config = { mcpServers: {} };
  let gateway = await RunningGateway.start({ config, folder, under });
  try {
    const plain = new RunTimeClient(gateway, false);
    assert.equal((await plain.add('inside', { url })).status, 201);
    const refused = async (client: RunTimeClient): Promise<void> => {
      await until(async () => (await client.server('inside')).consecutiveFailures > 0, 'the first attempt');
      assert.match((await client.server('inside')).reason, /is at an address of this machine or its network/);
    };
    await refused(plain);
    await gateway.stop();
    gateway = await RunningGateway.start({ config, folder, under });
    await refused(new RunTimeClient(gateway, false));
    assert.equal(requests, 0, 'nothing was sent to the machine behind the name');
    // With the exec token the same definition is allowed: the name does lead there.
    const exec = new RunTimeClient(gateway);
    assert.equal((await exec.change('inside', { url })).status, 200);
    await until(() => requests > 0, 'a request with the rights of the operator');
  } finally {
    inside.close();
    await gateway.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
});
