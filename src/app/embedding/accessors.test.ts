import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { textResult, textServer, tool } from '../../../test/support/text-server.ts';
import { WireClient } from '../../../test/support/wire-client.ts';
import { type AgentClient, createGateway, inProcessBytes } from '../../index.ts';
import { openGateway } from './open-gateway.ts';

test('S3.15 definition, kind, client and readiness of a configured server', async () => {
  const config = { command: 'nowhere-at-all', args: ['--x'], env: { TOKEN: 'secret-value-1' }, description: 'mine' };
  await using gateway = await createGateway({
    servers: { up: textServer({ tools: () => [tool('x')], call: () => textResult('y') }), down: config },
  });
  await gateway.ready();
  const up = gateway.server('up')!;
  const down = gateway.server('down')!;
  assert.deepEqual([up.compat.serviceType, down.compat.serviceType], ['mcpserver', 'mcpserver']);
  assert.deepEqual([up.compat.clientReady, down.compat.clientReady], [true, false]);
  const { command, args, env, description, timeoutMs } = down;
  assert.deepEqual(
    { command, args, env, description, timeoutMs },
    { ...config, env: { TOKEN: '[redacted]' }, timeoutMs: 60_000 },
  );
  await gateway.setTimeout('down', 5);
  assert.equal(gateway.server('down')!.compat.timeout, 5, 'server() returns the present value');
  assert.equal((await gateway.client('up')!.callTool('x')).content[0]?.text, 'y');
  assert.deepEqual([gateway.client('up')!.isInitialized, gateway.client('down')!.isInitialized], [true, false]);
  assert.deepEqual([gateway.server('none'), gateway.client('none')], [null, null]);
});

test('S2.32 all servers are listed again at the same time, and each has its own result', async () => {
  // Each server answers only when the other one has been asked too: asking one after the other would never end.
  const asked = { one: Promise.withResolvers<void>(), two: Promise.withResolvers<void>() };
  let meeting = false;
  const paired = (own: 'one' | 'two', other: 'one' | 'two') =>
    textServer({
      answers: {
        'tools/list': async () => {
          if (meeting) {
            asked[own].resolve();
            await asked[other].promise;
          }
          return `{"tools":[${meeting ? `${tool('x')},` : ''}${tool(own)}]}`;
        },
      },
    });
  await using gateway = await createGateway({
    servers: { one: paired('one', 'two'), two: paired('two', 'one'), down: { command: 'nowhere-at-all' } },
  });
  await gateway.ready();
  meeting = true;
  const results = await gateway.router.refreshTools();
  assert.deepEqual(
    results.map((result) => [result.name, result.ok ? result.tools.map(({ name }) => name) : result.ok]),
    [
      ['down', false],
      ['one', ['x', 'one']],
      ['two', ['x', 'two']],
    ],
  );
});

test('S2.33 S2.35 a client that a program adds to the router is listed to the clients of the gateway', async () => {
  const tool = { name: 'skill', description: 'An A2A skill', inputSchema: { type: 'object' } };
  const calls: unknown[] = [];
  const adapter: AgentClient = {
    name: 'a2a',
    isInitialized: true,
    serverInfo: { name: 'A2A adapter', version: '1' },
    tools: [tool],
    initialize: async () => ({ name: 'A2A adapter', version: '1' }),
    refreshTools: async () => [tool],
    callTool: async (name, args) => {
      calls.push([name, args]);
      const raw = `{"content":[{"type":"text","text":"done"}],"structuredContent":{"n":12345678901234567890}}`;
      return { ...JSON.parse(raw), raw };
    },
  };
  await using gateway = await createGateway({ servers: { b: textServer({}) } });
  gateway.router.addClient(adapter);
  await gateway.ready({ servers: ['b', 'a2a'] });
  assert.deepEqual(
    (await gateway.handleToolsList()).tools.map(({ name }) => name),
    ['a2a__skill'],
  );
  const { raw } = await gateway.handleToolsCall({ name: 'a2a__skill', arguments: { n: 1 } });
  assert.match(raw, /12345678901234567890/);
  await gateway.callTool('a2a__skill', '{"n":1.0}');
  assert.deepEqual(calls, [
    ['skill', '{"n":1}'],
    ['skill', '{"n":1.0}'],
  ]);
  // A real client over HTTP can call its tool as well.
  const { mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
  const client = await WireClient.open(mcpUrl);
  assert.equal(await client.callText('a2a__skill', {}), 'done');
  assert.deepEqual(
    gateway.servers().map(({ name }) => name),
    ['b'],
  );
  gateway.router.removeClient('a2a');
  await gateway.reload();
  await assert.rejects(gateway.callTool('a2a__skill'), { code: 'INVALID_PARAMS' });
  assert.throws(() => gateway.router.addClient({ ...adapter, name: 'no name' }), { code: 'INVALID_PARAMS' });
  assert.equal(gateway.router.getClient('no name'), null);
});

test('S2.5 S2.35 a client of the router may return the result of a tool alone, without its text', async () => {
  const listed = { name: 'skill', inputSchema: { type: 'object' } };
  const methods = { refreshTools: async () => [listed], callTool: async () => ({ content: [], isError: true }) };
  const adapter = { name: 'a2a', tools: [listed], serverInfo: { name: 'x', version: '1' }, ...methods };
  await using gateway = await createGateway();
  gateway.router.addClient(adapter as unknown as AgentClient);
  await gateway.ready({ servers: ['a2a'] });
  assert.equal((await gateway.callTool('a2a__skill')).raw, '{"content":[],"isError":true}');
});

test('S2.33 the status has registered servers, not clients of other kinds', async () => {
  await using gateway = await createGateway({ servers: { b: textServer({}), a: textServer({}) } });
  await gateway.ready();
  const methods = { refreshTools: () => [], callTool: () => null };
  const foreign = { name: 'foreign', tools: [], isInitialized: true, ...methods } as unknown as AgentClient;
  gateway.router.addClient(foreign);
  const names = () => gateway.servers().map(({ name }) => name);
  assert.deepEqual(names(), ['a', 'b']);
  assert.equal(gateway.server('foreign'), null);
  assert.equal(gateway.router.getClient('foreign'), foreign);
  await gateway.unregisterServer('a');
  assert.deepEqual(names(), ['b']);
});

/** A client of a program without tools. */
function toolless(name: string): AgentClient {
  const methods = { refreshTools: async () => [], callTool: async () => null };
  return { name, tools: [], serverInfo: { name, version: '1' }, ...methods } as unknown as AgentClient;
}

test('startServer replaces a client of the router, and the server then has a status', async () => {
  await using gateway = await createGateway();
  gateway.router.addClient(toolless('a2a'));
  await gateway.ready({ servers: ['a2a'] });
  const server = textServer({ tools: () => [tool('say')], call: () => textResult('hello') });
  assert.equal((await gateway.startServer('a2a', server)).state, 'running');
  assert.deepEqual(
    gateway.servers().map(({ name }) => name),
    ['a2a'],
  );
  assert.equal(gateway.router.getClient('a2a'), gateway.client('a2a'));
  assert.equal((await gateway.router.routeToolCall('a2a__say')).content[0]?.text, 'hello');
  assert.equal(await gateway.unregisterServer('a2a'), true);
  assert.equal(gateway.router.getClient('a2a'), null);
});

test('the gateway keeps the factories of in-process servers only while these are registered', async () => {
  const { gateway, components } = await openGateway({});
  const { memoryServers } = components.options;
  const hanging = inProcessBytes(() => ({ receive() {}, close() {} }));
  try {
    const [, taken] = await Promise.allSettled([
      gateway.registerServer('one', textServer({})),
      gateway.registerServer('one', textServer({})),
    ]);
    assert.deepEqual([taken.status, memoryServers?.size], ['rejected', 1]);
    const starting = gateway.startServer('one', hanging);
    const cancelled = assert.rejects(starting, { code: 'CANCELLED' });
    await new Promise((resolve) => setImmediate(resolve));
    await gateway.unregisterServer('one');
    await cancelled;
    assert.equal(memoryServers?.size, 0);
    await gateway.registerServer('two', textServer({}));
    gateway.router.addClient(toolless('two'), { replace: true });
    await gateway.ready({ servers: ['two'] });
    gateway.router.removeClient('two');
    await until(() => memoryServers?.size === 0);
  } finally {
    await gateway.close();
  }
});
