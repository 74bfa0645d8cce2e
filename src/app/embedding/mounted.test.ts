import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { serve } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { Hono } from 'hono';
import { textResult, textServer, tool } from '../../../test/support/text-server.ts';
import { WireClient } from '../../../test/support/wire-client.ts';
import { createGateway } from '../../index.ts';

const LIMIT = { timeout: 30_000 };
const echo = () => textServer({ tools: () => [tool('echo')], call: ({ args }) => textResult(args) });

test('S2.34 the handler serves MCP in a node:http server of the program, beside its own paths', LIMIT, async () => {
  await using gateway = await createGateway({ servers: { a: echo() } });
  await gateway.ready();
  const server = createServer((request, response) => {
    if (request.url === '/own') response.end('mine');
    else gateway.handler(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    assert.equal(await (await fetch(`${origin}/own`)).text(), 'mine');
    const client = await WireClient.open(`${origin}/mcp`);
    assert.equal(await client.callText('a__echo', { n: 1 }), '{"n":1}');
    assert.equal((await fetch(`${origin}/readyz`)).status, 200);
    // Its checks are those of the gateway's own listener.
    const foreign = await fetch(`${origin}/mcp`, { method: 'POST', headers: { origin: 'https://evil.example' } });
    assert.equal(foreign.status, 403);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('S2.34 the handler mounts in a Hono server', LIMIT, async () => {
  await using gateway = await createGateway({ servers: { a: echo() } });
  await gateway.ready();
  const app = new Hono<{ Bindings: { incoming: Parameters<typeof gateway.handler>[0]; outgoing: never } }>();
  app.get('/own', (context) => context.text('mine'));
  app.all('*', ({ env }) => {
    gateway.handler(env.incoming, env.outgoing);
    return RESPONSE_ALREADY_SENT;
  });
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    assert.equal(await (await fetch(`${origin}/own`)).text(), 'mine');
    const client = await WireClient.open(`${origin}/mcp`);
    assert.equal(await client.callText('a__echo', { n: 1 }), '{"n":1}');
  } finally {
    server.close();
  }
});

test(
  'S2.36 HTTP+SSE in a server of the program: sessions counted, notifications broadcast, the endpoint absolute behind a trusted proxy',
  LIMIT,
  async () => {
    await using gateway = await createGateway({
      servers: { a: echo() },
      config: { listen: { trustedProxies: ['127.0.0.1'] } },
    });
    await gateway.ready();
    const server = createServer(gateway.handler);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    try {
      const heard: unknown[] = [];
      const clients = [1, 2].map(() => new Client({ name: 'old', version: '1' }));
      for (const client of clients) {
        client.fallbackNotificationHandler = async (notification) => void heard.push(notification);
        await client.connect(new SSEClientTransport(new URL(`http://127.0.0.1:${port}/sse`)));
      }
      assert.equal(gateway.sse.sessionCount, 2);
      assert.equal(gateway.sse.broadcast('notifications/of_the_program', { n: 1 }), 2);
      const { content } = await clients[0]!.callTool({ name: 'a__echo', arguments: {} });
      await clients[1]!.ping();
      assert.deepEqual(content, [{ type: 'text', text: '{}' }]);
      assert.equal(heard.length, 2);
      assert.deepEqual(heard[0], { method: 'notifications/of_the_program', params: { n: 1 }, jsonrpc: '2.0' });
      await Promise.all(clients.map((client) => client.close()));
      while (gateway.sse.sessionCount > 0) await new Promise((resolve) => setTimeout(resolve, 10));
      const first = async (headers: Record<string, string>) => {
        const stop = new AbortController();
        const { body } = await fetch(`http://127.0.0.1:${port}/sse`, { headers, signal: stop.signal });
        const { value } = await body!.pipeThrough(new TextDecoderStream()).getReader().read();
        stop.abort();
        return /^data: (.*)$/m.exec(value ?? '')![1]!;
      };
      const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'localhost:8443' };
      assert.match(await first(forwarded), /^https:\/\/localhost:8443\/message\?sessionId=/);
      assert.match(await first({}), /^\/message\?sessionId=/);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  },
);
