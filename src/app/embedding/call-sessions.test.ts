import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FOUR_SERVERS } from '../../../test/support/four-servers.ts';
import { createGateway, type Gateway, inProcessBytes } from '../../index.ts';

async function opened(servers: Parameters<typeof createGateway>[0] & object): Promise<Gateway> {
  const gateway = await createGateway(servers);
  await gateway.ready();
  return gateway;
}

test('S1.16 S2.29 calls name their session: a process each, its state kept, listed, and closed one by one', async () => {
  await using gateway = await opened({ servers: { memory: FOUR_SERVERS.mcpServers.memory } });
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'me', version: '1' } };
  const { sessionId } = await gateway.handleInitialize(params);
  const pids = async (session: string) => {
    await gateway.callTool('memory__read_graph', {}, { session });
    const own = gateway.server('memory')!.connections.filter(({ requests }) => requests > 0);
    return own.map(({ pid }) => pid);
  };
  const first = await pids(sessionId);
  assert.equal(first.length, 1);
  assert.deepEqual(await pids(sessionId), first);
  const both = await pids('of my own');
  assert.equal(both.length, 2);
  assert.equal((await pids('another')).length, 3);
  assert.equal((await pids('of my own')).length, 3);
  const names = gateway.server('memory')!.connections.map(({ key }) => key);
  assert.equal(new Set(names).size, names.length, `each has its own name: ${names}`);
  const another = gateway
    .server('memory')!
    .connections.find(({ pid, requests }) => requests > 0 && !both.includes(pid))!;
  assert.equal(gateway.closeConnection({ server: 'memory', session: another.key }), true);
  assert.equal(gateway.closeConnection({ server: 'memory', session: another.key }), false);
  const left = await pids('of my own');
  assert.ok(
    both.every((pid) => left.includes(pid)),
    `the others go on: ${left} of ${both}`,
  );
  const { key } = gateway.server('memory')!.connections.find(({ pid }) => pid === first[0])!;
  assert.equal(gateway.closeConnection({ server: 'memory', session: key }), true);
  assert.equal(gateway.closeConnection({ server: 'memory', session: key }), false);
  assert.equal(gateway.closeConnection({ server: 'nowhere', session: key }), false);
  const later = await pids(sessionId);
  assert.ok(!later.includes(first[0]!) && later.includes(both.find((pid) => pid !== first[0])!));
  await gateway.registerAgent('x', ['memory']);
  const asAgent = gateway.callTool('memory__read_graph', {}, { session: sessionId, agent: 'x' });
  await assert.rejects(asAgent, { code: 'ACCESS_DENIED' });
});

test('S2.29 S2.38 sessions of the program last while servers and agents change, also where callers need a key', async () => {
  await using gateway = await opened({ servers: { memory: FOUR_SERVERS.mcpServers.memory } });
  await gateway.registerAgent('web', ['memory'], { key: 'a-key-of-sixteen-characters' });
  await gateway.listen({ port: 0, controlPort: 0 });
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'me', version: '1' } };
  const { sessionId } = await gateway.handleInitialize(params);
  const { id } = gateway.sessions.create();
  const called = async (): Promise<unknown> => {
    await gateway.callTool('memory__read_graph', {}, { session: sessionId });
    return gateway
      .server('memory')!
      .connections.filter(({ requests }) => requests > 0)
      .map(({ pid }) => pid);
  };
  const first = await called();
  const silent = inProcessBytes(() => ({ receive: () => {}, close: () => {} }), { start: 'lazy' });
  await gateway.registerServer('other', silent);
  await gateway.unregisterAgent('web');
  assert.deepEqual([gateway.sessions.get(sessionId)?.id, gateway.sessions.get(id)?.id], [sessionId, id]);
  assert.deepEqual(await called(), first);
});

test('S3.8 S3.10 the program stops, suspends and resumes a server', async () => {
  await using gateway = await opened({ servers: { memory: FOUR_SERVERS.mcpServers.memory } });
  const stopped = await gateway.stopServer('memory');
  assert.deepEqual([stopped.state, stopped.connections], ['stopped', []]);
  await assert.rejects(gateway.callTool('memory__read_graph'), { outcome: 'NOT_SENT' });
  assert.equal((await gateway.restart('memory')).state, 'running');
  assert.equal((await gateway.suspendServer('memory')).state, 'suspended');
  await assert.rejects(gateway.callTool('memory__read_graph'));
  assert.equal(await gateway.reload(), true);
  await assert.rejects(gateway.restart('memory'), { code: 'NOT_SENT', message: /suspended or disabled/ });
  assert.equal(gateway.server('memory')?.state, 'suspended');
  assert.equal((await gateway.resumeServer('memory')).state, 'running');
  await gateway.callTool('memory__read_graph');
  for (const call of [gateway.stopServer, gateway.suspendServer, gateway.resumeServer])
    await assert.rejects(call.call(gateway, 'nowhere'), { code: 'INVALID_PARAMS' });
  await gateway.suspendServer('memory');
  await gateway.unregisterServer('memory');
  const added = await gateway.registerServer('memory', FOUR_SERVERS.mcpServers.memory);
  assert.equal(added.state, 'running', 'the suspension ended with the earlier server');
});

test('a call with a time limit above the longest timer does not expire at once', async () => {
  await using gateway = await opened({ servers: { slow: FOUR_SERVERS.mcpServers.everything } });
  const options = { timeoutMs: 2 ** 31 };
  const args = { duration: 0.3, steps: 1 };
  const { content } = await gateway.callTool('slow__trigger-long-running-operation', args, options);
  assert.match(JSON.stringify(content), /completed/);
});
