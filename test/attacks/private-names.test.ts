import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { StatelessServer } from '../fixtures/http/stateless.ts';
import { until } from '../support/cluster-processes.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const NAME = 'tools.partner.example.com';

/** Makes the name of a public host resolve to this machine, in a mount namespace. Needs root, as the CI has. */
function hostsFile(folder: string): readonly string[] {
  const hosts = join(folder, 'hosts');
  writeFileSync(hosts, `127.0.0.1 localhost\n127.0.0.1 ${NAME}\n`);
  return ['unshare', '-m', 'sh', '-c', `mount --bind ${hosts} /etc/hosts && exec "$@"`, 'sh'];
}

test('security:8 a server added with the control token, whose public name resolves to this machine, is never connected, also after a restart', async (t) => {
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
    // With the exec token the same definition is allowed: the name does resolve to this machine.
    const exec = new RunTimeClient(gateway);
    assert.equal((await exec.change('inside', { url })).status, 200);
    await until(() => requests > 0, 'a request with the rights of the operator');
  } finally {
    inside.close();
    await gateway.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
});

test('security:8 behind an HTTP proxy the proxy resolves the name of a server added with the control token, and decides', async (t) => {
  const server = await StatelessServer.start();
  const asked: string[] = [];
  let allows = false;
  const proxy = createServer((incoming, response) => {
    asked.push(incoming.url!);
    if (!allows) return void response.writeHead(502).end();
    const { method, headers } = incoming;
    const onward = request(server.url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done));
  t.after(async () => {
    proxy.closeAllConnections();
    proxy.close();
    await server.stop();
  });
  const address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const env = { HTTP_PROXY: address, http_proxy: address, NO_PROXY: '', no_proxy: '' };
  const gateway = await RunningGateway.start({ config: { mcpServers: {} }, env });
  t.after(() => gateway.dispose());
  const plain = new RunTimeClient(gateway, false);
  // A name that no resolver knows (RFC 6761): only the proxy can reach a server for it.
  const url = 'http://tools.partner.invalid/mcp';
  assert.equal((await plain.add('outside', { url })).status, 201);
  await until(async () => (await plain.server('outside')).consecutiveFailures > 0, 'the proxy refuses');
  assert.ok(asked.length > 0 && asked.every((target) => target.includes('tools.partner.invalid')), asked.join());
  assert.equal(server.stage.requests.length, 0);
  allows = true;
  assert.equal((await plain.ask('POST', '/api/v1/servers/outside/restart')).status, 200);
  await until(async () => (await plain.server('outside')).state === 'connected', 'the proxy allows it');
  // The gateway refuses a URL with an address of this network before that.
  assert.equal((await plain.add('inside', { url: 'http://10.0.0.1/mcp' })).status, 403);
});
