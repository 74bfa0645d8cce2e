import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { EventReader } from '../../../test/support/raw-http.ts';
import { textResult, textServer, tool } from '../../../test/support/text-server.ts';
import { WireClient } from '../../../test/support/wire-client.ts';
import { createGateway } from '../../index.ts';

const OLD = 'an-old-key-of-an-agent';
const NEW = 'the-new-key-of-the-agent';

function echo(name: string) {
  return textServer({ name, tools: () => [tool('echo')], call: ({ args }) => textResult(args) });
}

async function opened(config: object = {}) {
  const gateway = await createGateway({ servers: { a: echo('a'), b: echo('b') }, config });
  await gateway.ready();
  const client = (url: string, key: string | null, era: 'stateful' | 'stateless' = 'stateless') =>
    new WireClient(url, era, { headers: key === null ? {} : { authorization: `Bearer ${key}` } });
  return { gateway, client, [Symbol.asyncDispose]: () => gateway.close() };
}

test('S2.28 after the last key is revoked, callers over HTTP still need one', async () => {
  await using use = await opened();
  const { gateway, client } = use;
  await gateway.registerAgent('web', ['a'], { key: OLD });
  const { mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
  assert.deepEqual(await client(mcpUrl, OLD).toolNames(), ['a__echo']);
  assert.equal(await gateway.unregisterAgent('web'), true);
  for (const key of [OLD, null]) {
    assert.equal((await client(mcpUrl, key).request('tools/list')).status, 401);
  }
  const page = await fetch(new URL('/oauth/login/a', mcpUrl));
  assert.match(await page.text(), /Key of the agent/);
  await gateway.registerAgent('web', ['b'], { key: NEW });
  assert.deepEqual(await client(mcpUrl, NEW).toolNames(), ['b__echo']);
});

test('S2.28 a replaced key does not end the connection of the program, which no key opened', async () => {
  await using use = await opened();
  const { gateway } = use;
  await gateway.registerAgent('ada', ['a'], { key: OLD });
  const transport = gateway.connect({ agent: 'ada' });
  let closed = 0;
  transport.onclose = () => closed++;
  const answers: unknown[] = [];
  transport.onmessage = (message) => answers.push(message);
  await transport.start();
  const clientInfo = { name: 'me', version: '1' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  await transport.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  await until(() => answers.length === 1);
  await gateway.registerAgent('other', ['b']);
  for (const key of [NEW, OLD]) await gateway.registerAgent('ada', ['a'], { key });
  await transport.send({ jsonrpc: '2.0', id: 2, method: 'tools/list' });
  await until(() => answers.length === 2 || closed > 0);
  assert.equal(closed, 0);
  await transport.close();
});

test('S2.28 an agent that is registered again without a key keeps its key', async () => {
  await using use = await opened();
  const { gateway, client } = use;
  await gateway.registerAgent('web', ['a'], { key: OLD });
  const { mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
  await gateway.registerAgent('web', ['a', 'b']);
  assert.deepEqual(await client(mcpUrl, OLD).toolNames(), ['a__echo', 'b__echo']);
  assert.equal((await client(mcpUrl, null).request('tools/list')).status, 401);
});

test('S2.28 a registration restricts an agent of the configuration, over HTTP and on open connections', async () => {
  await using use = await opened({ agents: { bob: { key: OLD } } });
  const { gateway, client } = use;
  const { mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
  assert.deepEqual(await client(mcpUrl, OLD).toolNames(), ['a__echo', 'b__echo']);
  await gateway.registerAgent('bob', ['a']);
  assert.deepEqual(await client(mcpUrl, OLD).toolNames(), ['a__echo']);
  const { message } = await client(mcpUrl, OLD).request('tools/call', { name: 'b__echo', arguments: {} });
  assert.match(JSON.stringify(message), /Access denied: agent 'bob' cannot use tools from 'b'/);
  await gateway.unregisterAgent('bob');
  assert.deepEqual(await client(mcpUrl, OLD).toolNames(), ['a__echo', 'b__echo']);
});

test('S2.28 the key of an agent cannot become that of another one', async () => {
  await using use = await opened({ agents: { bob: { key: OLD } } });
  const refused = { code: 'INVALID_PARAMS', message: 'agent bob has the same key as agent jobs: use another key' };
  await assert.rejects(use.gateway.registerAgent('jobs', ['a', 'b'], { key: OLD }), refused);
  assert.equal(use.gateway.allowedServers('jobs'), null);
});

test('S2.28 a replaced key ends the streams that it opened, and no session', async () => {
  await using use = await opened();
  const { gateway, client } = use;
  await gateway.registerAgent('ada', ['a'], { key: OLD });
  const { mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
  const session = client(mcpUrl, OLD, 'stateful');
  await session.initialize();
  const streams = [await session.listen(), await client(mcpUrl, OLD).listening({ toolsListChanged: true })];
  let ended = 0;
  for (const stream of streams) {
    void (async () => {
      while ((await stream.message()) !== null);
      ended++;
    })();
  }
  await gateway.registerAgent('ada', ['a'], { key: NEW });
  await until(() => ended === streams.length);
  assert.equal((await session.request('tools/list')).status, 401);
  const continued = client(mcpUrl, NEW, 'stateful');
  continued.sessionId = session.sessionId;
  assert.deepEqual(await continued.toolNames(), ['a__echo']);
});

test('S2.28 a call that streams while its key is replaced is answered to the client that resumes it with the new key', async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const slow = textServer({
    tools: () => [tool('slow')],
    call: ({ token, link }) => {
      link.deliver(
        `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":1}}`,
      );
      return promise;
    },
  });
  await using gateway = await createGateway({ servers: { slow } });
  await gateway.ready();
  await gateway.registerAgent('ada', ['slow'], { key: OLD });
  const { mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
  const session = new WireClient(mcpUrl, 'stateful', { headers: { authorization: `Bearer ${OLD}` } });
  await session.initialize();
  const params = { name: 'slow__slow', arguments: {}, _meta: { progressToken: 'p' } };
  const stream = await session.post({ jsonrpc: '2.0', id: 'long', method: 'tools/call', params });
  assert.ok(stream instanceof EventReader);
  let last: string | null = null;
  for (let event = await stream.next(); ; event = await stream.next()) {
    last = event?.id ?? last;
    if (event?.data.includes('notifications/progress')) break;
  }
  await gateway.registerAgent('ada', ['slow'], { key: NEW });
  assert.deepEqual(await stream.rest(), []);
  resolve(textResult('done'));
  const returned = new WireClient(mcpUrl, 'stateful', { headers: { authorization: `Bearer ${NEW}` } });
  returned.sessionId = session.sessionId;
  const resumed = await returned.listen(last!);
  assert.equal((await resumed.message()).result.content[0].text, 'done');
});
