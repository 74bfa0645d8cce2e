import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textResult, textServer, tool } from '../../test/support/text-server.ts';
import { createGateway, inProcess, inProcessBytes, type ServerState } from '../index.ts';
import { lifecycleOf, serverCapabilities, serverProxies, serverProxy } from './index.ts';

test('S4.5 every state has one of the seed’s four labels; an invalid state, or a disabled server, is unknown', () => {
  const labels: Record<ServerState, string> = {
    unknown: 'unknown',
    starting: 'initializing',
    running: 'connected',
    connected: 'connected',
    degraded: 'degraded',
    disconnected: 'unknown',
    failed: 'failed',
    unreachable: 'failed',
    auth_required: 'failed',
    misconfigured: 'failed',
    defect: 'failed',
    stopping: 'unknown',
    stopped: 'unknown',
    suspended: 'unknown',
  };
  for (const [state, label] of Object.entries(labels)) assert.equal(lifecycleOf(state), label, state);
  for (const word of ['', 'Running', 'toString', '__proto__']) assert.equal(lifecycleOf(word), 'unknown', word);
});

test('S4.6 capabilities are booleans from presence, whatever their contents', async () => {
  assert.deepEqual(serverCapabilities(null), { tools: false, resources: false, prompts: false });
  assert.deepEqual(serverCapabilities({ tools: {}, prompts: { listChanged: false }, logging: {} }), {
    tools: true,
    resources: false,
    prompts: true,
  });
  const server = textServer({ capabilities: '{"resources":{"subscribe":true},"x-own":1}' });
  await using gateway = await createGateway({ servers: { a: server } });
  assert.equal(gateway.capabilities('nobody'), null);
  await gateway.ready();
  assert.deepEqual(gateway.capabilities('a'), { resources: { subscribe: true }, 'x-own': 1 });
  assert.deepEqual(serverProxy(gateway, 'a')?.capabilities, { tools: false, resources: true, prompts: false });
});

test('S4.7 S4.16 check:A9 proxies and statuses are snapshots: they do not change, and the next one is current', async () => {
  const tools = [tool('one', ',"description":"First"')];
  const server = textServer({ tools: () => tools, call: () => textResult('') });
  await using gateway = await createGateway({ servers: { b: server, a: textServer({ tools: () => [] }) } });
  await gateway.ready();
  const proxy = serverProxy(gateway, 'b')!;
  const shown = { name: 'one', description: 'First', inputSchema: { type: 'object' } };
  assert.deepEqual([proxy.name, proxy.state, proxy.tools], ['b', 'connected', [shown]]);
  assert.throws(() => Object.assign(proxy, { state: 'failed' }), TypeError);
  assert.throws(() => (proxy.tools as unknown[]).push(shown), TypeError);
  assert.throws(() => Object.assign(proxy.tools[0]!, { name: 'else' }), TypeError);
  (proxy.tools[0]!.inputSchema as Record<string, unknown>)['type'] = 'string';
  assert.deepEqual(serverProxy(gateway, 'b')!.tools, [shown]);

  const statuses = gateway.servers();
  assert.deepEqual(
    statuses.map(({ name }) => name),
    ['a', 'b'],
  );
  (statuses as unknown[]).length = 0;
  const status = gateway.server('b')!;
  (status.tools as string[]).push('not there');
  Object.assign(status, { state: 'failed' });
  assert.deepEqual([gateway.server('b')!.state, gateway.server('b')!.tools], ['running', ['one']]);
  assert.deepEqual(
    serverProxies(gateway).map(({ name }) => name),
    ['a', 'b'],
  );

  tools.push(tool('two'));
  await gateway.client('b')!.refreshTools();
  assert.equal(proxy.tools.length, 1);
  assert.equal(serverProxy(gateway, 'b')!.tools.length, 2);
  await proxy.close();
  assert.equal(serverProxy(gateway, 'b'), null);
  assert.equal(proxy.state, 'connected');
});

test('S4.14 check:F6 a deadline in seconds, set before or after the server exists; 0 or less is the default', async () => {
  const silent = () => textServer({ tools: () => [tool('wait')], call: () => null });
  await using gateway = await createGateway();
  await gateway.setTimeout('early', 0.05);
  await gateway.registerServer('early', silent());
  await gateway.registerServer('late', silent());
  await gateway.setTimeout('late', 0.05);
  for (const server of ['early', 'late']) {
    await assert.rejects(gateway.callTool({ server, tool: 'wait' }), { code: 'TIMEOUT', message: /within \d{2,3} ms/ });
  }
  // The deadline is reset: the same call is still open long after another call reached its deadline.
  await gateway.setTimeout('early', -1);
  const stop = new AbortController();
  let ended = false;
  const open = gateway.callTool({ server: 'early', tool: 'wait' }, {}, { signal: stop.signal }).catch((error) => {
    ended = true;
    return error;
  });
  await assert.rejects(gateway.callTool({ server: 'late', tool: 'wait' }), { code: 'TIMEOUT' });
  await assert.rejects(gateway.callTool({ server: 'late', tool: 'wait' }), { code: 'TIMEOUT' });
  assert.equal(ended, false);
  stop.abort();
  assert.equal((await open).code, 'CANCELLED');
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
    await assert.rejects(gateway.setTimeout('late', bad), { code: 'INVALID_PARAMS' });
  }
});

test('S4.10 S4.9 check:A3 a name is taken from the first moment; a failed server stays, is tried again, and can be removed', async () => {
  const flaky = () =>
    inProcess(() => {
      throw new Error('not today');
    });
  await using gateway = await createGateway();
  const attempts = await Promise.allSettled([
    gateway.registerServer('one', flaky()),
    gateway.registerServer('one', flaky()),
    gateway.registerServer('ONE', textServer({})),
  ]);
  assert.deepEqual(
    attempts.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected'],
  );
  const failed = gateway.server('one')!;
  assert.equal(lifecycleOf(failed.state), 'failed');
  assert.notEqual(failed.nextRetryAt, null);
  await assert.rejects(gateway.registerServer('one', textServer({})), { message: /registered already/ });
  assert.equal((await gateway.restart('one')).state, 'failed');
  assert.equal(await gateway.unregisterServer('one'), true);
  assert.equal((await gateway.registerServer('one', textServer({}))).state, 'running');
});

test('S4.9 the result of a connect is not committed for a server that was removed meanwhile', async () => {
  const { promise: asked, resolve: heard } = Promise.withResolvers<void>();
  let late = (): void => {};
  const hanging = inProcessBytes((link) => ({
    receive: (message) => {
      const { id } = JSON.parse(message.toString()) as { id: number };
      const result = {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' },
      };
      late = () => link.deliver(JSON.stringify({ jsonrpc: '2.0', id, result }));
      heard();
    },
    close: () => {},
  }));
  await using gateway = await createGateway();
  const registering = gateway.registerServer('one', hanging);
  await asked;
  const unregistered = gateway.unregisterServer('one');
  late();
  assert.equal(await unregistered, true);
  late();
  await registering.catch((error) => assert.equal(error.code, 'CANCELLED'));
  assert.equal(gateway.server('one'), null);
  assert.equal(gateway.client('one'), null);
  assert.deepEqual(await gateway.tools(), []);
});
