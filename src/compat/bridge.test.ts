import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textResult, textServer, tool } from '../../test/support/text-server.ts';
import { createGateway, inProcess } from '../index.ts';
import { bridgeAll, bridgedTools, callBridgedTool, pendingSchemaChanges, resultText } from './index.ts';

const BLOCKS =
  '{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"b"},{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"resource_link","uri":"x:y","name":"y"}],"isError":true}';

function servers() {
  return {
    zoo: textServer({
      tools: () => [tool('blocks', ',"description":"many blocks"'), tool('args')],
      call: ({ tool: called, args }) => (called === 'blocks' ? BLOCKS : textResult(args)),
    }),
    ant: textServer({ tools: () => [tool('args')], call: ({ args }) => textResult(`ant ${args}`) }),
    down: inProcess(() => {
      throw new Error('down');
    }),
  };
}

test('S4.8 S4.15 tools of servers that are up, as mcp__server__tool, sorted', async () => {
  await using gateway = await createGateway({ servers: servers() });
  await gateway.ready();
  assert.deepEqual(await bridgedTools(gateway), [
    { name: 'mcp__ant__args', description: '', inputSchema: { type: 'object' } },
    { name: 'mcp__zoo__args', description: '', inputSchema: { type: 'object' } },
    { name: 'mcp__zoo__blocks', description: 'many blocks', inputSchema: { type: 'object' } },
  ]);
  await gateway.unregisterServer('ant');
  assert.equal((await bridgedTools(gateway)).length, 2);
});

test('S4.13 a bridged call gives text: text blocks joined, others named, the failure reported', async () => {
  await using gateway = await createGateway({ servers: servers() });
  await gateway.ready();
  assert.deepEqual(await callBridgedTool(gateway, 'mcp__zoo__blocks'), {
    text: 'a[image: image/png]b[audio content][resource_link content]',
    isError: true,
  });
  assert.deepEqual(await callBridgedTool(gateway, 'mcp__zoo__args', '{"n":1.0}'), {
    text: '{"n":1.0}',
    isError: false,
  });
  await assert.rejects(callBridgedTool(gateway, 'zoo__args'), { message: 'not the name of an MCP tool: zoo__args' });
  await assert.rejects(callBridgedTool(gateway, 'mcp__zoo__nothing'), { code: 'INVALID_PARAMS' });
  await assert.rejects(callBridgedTool(gateway, 'mcp__down__x'), { name: 'GatewayError', outcome: 'NOT_SENT' });
  assert.deepEqual(resultText({ content: [] }), { text: '', isError: false });
});

test('S4.18 check:D9 bridgeAll returns local tools that can be called, for an agent those it may use', async () => {
  await using gateway = await createGateway({ servers: servers() });
  await gateway.ready();
  const tools = await bridgeAll(gateway);
  assert.deepEqual(
    tools.map(({ name, description, schema }) => [name, description, schema]),
    (await bridgedTools(gateway)).map(({ name, description, inputSchema }) => [name, description, inputSchema]),
  );
  assert.deepEqual(await tools[0]!.execute({ a: 1 }), { text: 'ant {"a":1}', isError: false });
  const stopped = AbortSignal.abort(new Error('enough'));
  await assert.rejects(tools[0]!.execute({}, { signal: stopped }), /enough/);
  await gateway.registerAgent('keeper', ['zoo']);
  const kept = await bridgeAll(gateway, { agent: 'keeper' });
  assert.deepEqual(
    kept.map(({ name }) => name),
    ['mcp__zoo__args', 'mcp__zoo__blocks'],
  );
  await gateway.registerAgent('keeper', []);
  await assert.rejects(kept[0]!.execute({}), { code: 'ACCESS_DENIED' });
});

test('S4.20 check:G2 the difference of the tools since a snapshot', async () => {
  await using gateway = await createGateway({ servers: servers() });
  await gateway.ready();
  const snapshot = await bridgedTools(gateway);
  assert.deepEqual(await pendingSchemaChanges(gateway, snapshot), []);
  await gateway.unregisterServer('ant');
  await gateway.registerServer('bee', textServer({ tools: () => [tool('args')], call: () => textResult('') }));
  const other = snapshot.map((known) =>
    known.name === 'mcp__zoo__args' ? { ...known, description: 'before' } : known,
  );
  assert.deepEqual(await pendingSchemaChanges(gateway, other), [
    { kind: 'tool_removed', toolName: 'mcp__ant__args' },
    { kind: 'tool_added', toolName: 'mcp__bee__args' },
    { kind: 'tool_schema_changed', toolName: 'mcp__zoo__args' },
  ]);
});

test('S4.15 S4.18 tools of a client that was added to the router are bridged', async () => {
  await using gateway = await createGateway();
  const raw = textResult('done');
  gateway.router.addClient({
    name: 'a2a',
    isInitialized: true,
    serverInfo: { name: 'a2a', version: '1' },
    tools: [{ name: 'skill', inputSchema: { type: 'object' } }],
    initialize: async () => ({ name: 'a2a', version: '1' }),
    refreshTools: async () => [],
    callTool: async () => ({ ...JSON.parse(raw), raw }),
  });
  await gateway.ready({ servers: ['a2a'] });
  const tools = await bridgeAll(gateway);
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['mcp__a2a__skill'],
  );
  assert.deepEqual(await tools[0]!.execute({}), { text: 'done', isError: false });
});
