import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { manySided } from '../support/many-sided.ts';
import { EventReader, send } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  test(`S2.29 check:C5 the same Mcp-Session-Id goes on after ${signal}: lists, calls, its principal and its endpoint`, async (t) => {
    const server = await StatefulServer.start();
    t.after(() => server.stop());
    const config = {
      mcpServers: { web: { type: 'http', url: server.url }, s: manySided('s') },
      agents: { ada: { key: 'key-of-ada-0123456789' }, bob: { key: 'key-of-bob-0123456789' } },
    };
    const headers = { authorization: 'Bearer key-of-ada-0123456789' };
    const gateway = await RunningGateway.start({ config });
    t.after(() => gateway.dispose());
    await gateway.ready();
    const client = await WireClient.open(gateway.mcpUrl, { headers });
    assert.equal(await client.callText('web__echo', { text: '1' }), '1');
    assert.equal(await client.callText('s__count'), '1');
    const names = await client.toolNames();
    await sleep(300);
    const code = await gateway.stop(signal);
    assert.equal(code, signal === 'SIGTERM' ? 0 : null);

    const { port } = new URL(gateway.mcpUrl);
    const again = await RunningGateway.start({ config, folder: gateway.folder, args: ['--port', port] });
    t.after(() => again.dispose());
    assert.equal(again.mcpUrl, gateway.mcpUrl);
    const id = client.sessionId;
    assert.deepEqual((await client.toolNames()).sort(), [...names].sort());
    assert.equal(await client.callText('web__echo', { text: '2' }), '2');
    assert.equal(await client.callText('s__count'), '1');
    assert.equal(client.sessionId, id);
    const bob = new WireClient(again.mcpUrl, 'stateful', {
      headers: { authorization: 'Bearer key-of-bob-0123456789' },
    });
    bob.sessionId = id;
    assert.equal((await bob.request('tools/list')).status, 404);
    const elsewhere = new WireClient(again.serverUrl('s'), 'stateful', { headers });
    elsewhere.sessionId = id;
    assert.equal((await elsewhere.request('tools/list')).status, 404);
    assert.equal((await send(again.mcpUrl, 'DELETE', { ...headers, 'mcp-session-id': id! })).status, 204);
    assert.equal((await client.request('tools/list')).status, 404);
  });
}

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  test(`a session keeps its subscription to a resource of a shared server over ${signal}, and reports it as updated`, async (t) => {
    const config = { mcpServers: { s: manySided('s') } };
    const gateway = await RunningGateway.start({ config });
    t.after(() => gateway.dispose());
    await gateway.ready();
    const client = await WireClient.open(gateway.mcpUrl);
    const uri = 'side://s/doc';
    await client.result('resources/subscribe', { uri });
    await sleep(300);
    await gateway.stop(signal);

    const { port } = new URL(gateway.mcpUrl);
    const again = await RunningGateway.start({ config, folder: gateway.folder, args: ['--port', port] });
    t.after(() => again.dispose());
    const stream = await client.listen();
    assert.equal(stream.status, 200);
    // One is the gateway's own; the server sends the other soon after each subscription.
    for (let updates = 0; updates < 2; ) {
      const { method, params } = await stream.message();
      if (method !== 'notifications/resources/updated') continue;
      assert.equal(params.uri, uri);
      updates++;
    }
    stream.drop();
  });
}

test('a server that lost its sessions gets one new initialize, and the client notices nothing', async (t) => {
  const server = await StatefulServer.start();
  t.after(() => server.stop());
  const gateway = await RunningGateway.start({ config: { mcpServers: { web: { type: 'http', url: server.url } } } });
  t.after(() => gateway.dispose());
  const client = await WireClient.open(gateway.mcpUrl);
  assert.equal(await client.callText('web__echo', { text: '1' }), '1');
  const initialized = () => server.stage.requests.filter(({ body }) => body.includes('"initialize"')).length;
  const before = initialized();
  server.forgetSessions();
  const texts = await Promise.all(['a', 'b', 'c'].map((text) => client.callText('web__echo', { text })));
  assert.deepEqual(texts, ['a', 'b', 'c']);
  assert.ok(initialized() <= before + 2, `${initialized() - before}`);
});

test('SIGTERM with a call in flight: no new sessions, the answer arrives, exit 0; a second Ctrl-C does not wait', async (t) => {
  const config = { mcpServers: { s: manySided('s') } };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  const client = await WireClient.open(gateway.mcpUrl);
  await client.callText('s__who');
  const slow = client.callText('s__sleep', { ms: 1_500 });
  await sleep(300);
  gateway.process.kill('SIGTERM');
  assert.equal(await slow, 'slept');
  assert.equal(await gateway.exited, 0);

  const other = await RunningGateway.start({ config, folder: gateway.folder });
  t.after(() => other.dispose());
  const again = await WireClient.open(other.mcpUrl);
  const lost = again.request('tools/call', { name: 's__sleep', arguments: { ms: 60_000 } }).catch(() => null);
  await sleep(500);
  const from = performance.now();
  other.process.kill('SIGINT');
  await sleep(300);
  assert.equal(other.process.exitCode, null);
  other.process.kill('SIGINT');
  await once(other.process, 'exit');
  assert.ok(performance.now() - from < 10_000);
  await lost;
});

test('check:B5 HTTP+SSE of 2024-11-05: endpoint event, 202, answers on the stream alone, in front of both eras', async (t) => {
  const config = { mcpServers: { old: manySided('old'), new: manySided('new', { ERA: 'stateless' }) } };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const stream = await EventReader.open(gateway.mcpUrl.replace(/mcp$/, 'sse'), 'GET', { accept: 'text/event-stream' });
  const first = await stream.next();
  assert.equal(first?.event, 'endpoint');
  const url = new URL(first!.data, gateway.mcpUrl).href;
  const ask = async (id: number, method: string, params: object) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
    const reply = await send(url, 'POST', { 'content-type': 'application/json' }, body);
    assert.deepEqual([reply.status, reply.json?.result], [202, undefined]);
    for (;;) {
      const message = await stream.message();
      if (message.id === id) return message.result;
    }
  };
  const clientInfo = { name: 'ancient', version: '1' };
  const handshake = await ask(1, 'initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo });
  assert.equal(handshake.protocolVersion, '2024-11-05');
  for (const name of ['old', 'new']) {
    const result = await ask(2, 'tools/call', { name: `${name}__echo`, arguments: { text: name } });
    assert.equal(result.content[0].text, name);
  }
  stream.drop();
});
