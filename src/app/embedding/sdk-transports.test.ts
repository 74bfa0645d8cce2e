import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { McpServer as OldServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { CreateMessageRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { McpServer } from '@modelcontextprotocol/server';
import { textServer, tool } from '../../../test/support/text-server.ts';
import { createGateway, inProcess, type SdkTransport } from '../../index.ts';

const old = (transport: SdkTransport) => {
  const server = new OldServer({ name: 'old', version: '1' });
  server.registerTool('hello', {}, async () => ({ content: [{ type: 'text', text: 'from SDK 1' }] }));
  server.registerTool('ask', {}, async () => {
    const { content } = await server.server.createMessage({ messages: [], maxTokens: 1 });
    return { content: [{ type: 'text', text: JSON.stringify(content) }] };
  });
  return server.connect(transport);
};

const modern = (transport: SdkTransport) => {
  const server = new McpServer({ name: 'modern', version: '2' });
  server.registerTool('hello', {}, async () => ({ content: [{ type: 'text', text: 'from SDK 2' }] }));
  return server.connect(transport);
};

test('check:B9 servers and clients of both SDKs connect to a gateway in the same program', async () => {
  await using gateway = await createGateway({ servers: { old: inProcess(old), modern: inProcess(modern) } });
  await gateway.ready();
  assert.deepEqual(
    gateway.servers().map(({ name, state }) => [name, state]),
    [
      ['modern', 'running'],
      ['old', 'running'],
    ],
  );
  const first = new OldClient({ name: 'c1', version: '1' });
  await first.connect(gateway.connect());
  const { tools } = await first.listTools();
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['modern__hello', 'old__hello', 'old__ask'],
  );
  assert.deepEqual((await first.callTool({ name: 'modern__hello' })).content, [{ type: 'text', text: 'from SDK 2' }]);
  const second = new Client({ name: 'c2', version: '1' });
  await second.connect(gateway.connect());
  assert.deepEqual((await second.callTool({ name: 'old__hello' })).content, [{ type: 'text', text: 'from SDK 1' }]);
  await first.close();
  await second.close();
});

test('a client may connect to one server, and receive its input requests', async () => {
  await using gateway = await createGateway({ servers: { old: inProcess(old) } });
  await gateway.ready();
  const client = new OldClient({ name: 'c', version: '1' }, { capabilities: { sampling: {} } });
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'm',
    role: 'assistant' as const,
    content: { type: 'text' as const, text: 'sampled' },
  }));
  await client.connect(gateway.connect({ server: 'old' }));
  assert.equal(client.getServerVersion()?.name, 'old');
  const { content } = await client.callTool({ name: 'ask' });
  assert.match(JSON.stringify(content), /sampled/);
  await client.close();
  assert.throws(() => gateway.connect({ server: 'none' }), { code: 'INVALID_PARAMS' });
});

test('an agent connects with its own rights, and the connection ends with the gateway', async () => {
  const gateway = await createGateway({ servers: { old: inProcess(old), modern: inProcess(modern) } });
  await gateway.ready();
  await gateway.registerAgent('a', ['modern']);
  const client = new OldClient({ name: 'c', version: '1' });
  await client.connect(gateway.connect({ agent: 'a' }));
  assert.deepEqual(
    (await client.listTools()).tools.map(({ name }) => name),
    ['modern__hello'],
  );
  const closed = new Promise<void>((resolve) => {
    client.onclose = resolve;
  });
  await gateway.close();
  await closed;
});

test('an open connection of an agent without a key gets each change of its rights, and ends with the agent', async () => {
  await using gateway = await createGateway({ servers: { modern: inProcess(modern) } });
  await gateway.ready();
  await gateway.registerAgent('a', ['modern']);
  const client = new OldClient({ name: 'c', version: '1' });
  await client.connect(gateway.connect({ agent: 'a' }));
  const closed = new Promise<void>((resolve) => {
    client.onclose = resolve;
  });
  const names = async () => (await client.listTools()).tools.map(({ name }) => name);
  // A change that does not concern the agent.
  await gateway.registerServer('more', textServer({ tools: () => [tool('x')] }));
  await gateway.ready();
  assert.deepEqual(await names(), ['modern__hello']);
  await gateway.registerAgent('a', ['modern', 'more']);
  assert.deepEqual(await names(), ['modern__hello', 'more__x']);
  await gateway.registerAgent('a', []);
  assert.deepEqual(await names(), []);
  await gateway.unregisterAgent('a');
  await closed;
});
