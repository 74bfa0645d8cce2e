import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { TaskServer } from '../fixtures/tasks/http.ts';
import type { EventReader, Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { type Era, TaskClient } from '../support/task-client.ts';
import { agents, alone, ERAS, keyOf, stdio } from '../support/task-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const RELATED = 'io.modelcontextprotocol/related-task';

describe('tasks between both eras, over HTTP and stdio, on both endpoints', () => {
  const servers: Partial<Record<Era, TaskServer>> = {};
  let gateway: RunningGateway;

  before(async () => {
    for (const era of ERAS) servers[era] = await TaskServer.start(era);
    const mcpServers = {
      'http-stateful': { type: 'http', url: servers.stateful!.url },
      'http-stateless': { type: 'http', url: servers.stateless!.url },
      'stdio-stateful': stdio('stateful'),
      'stdio-stateless': stdio('stateless'),
    };
    gateway = await RunningGateway.start({ config: { mcpServers, agents } });
    await gateway.ready();
  });

  after(async () => {
    await gateway.dispose();
    for (const era of ERAS) await servers[era]!.stop();
  });

  for (const era of ERAS) {
    for (const server of ['http-stateful', 'http-stateless', 'stdio-stateful', 'stdio-stateless']) {
      for (const aggregate of [true, false]) {
        const where = `a ${era} client, ${server} on ${aggregate ? '/mcp' : 'its own endpoint'}`;
        const open = (agent = 'ada') =>
          TaskClient.open(aggregate ? gateway.mcpUrl : gateway.serverUrl(server), era, { headers: keyOf(agent) });
        const named = (tool: string) => (aggregate ? `${server}__${tool}` : tool);

        test(`${where}: a task begins, ends and gives its answer; unknown fields stay`, async () => {
          const client = await open();
          const task = await client.start(named('must'));
          assert.equal(task.status, 'working');
          assert.equal(era === 'stateful' ? task.ttl : task.ttlMs, 60_000);
          assert.equal(era === 'stateful' ? task.pollInterval : task.pollIntervalMs, 50);
          assert.deepEqual(task.vendor, { n: 1.5 });
          const { result } = await client.outcome(task.taskId);
          assert.equal(result.content[0].text, 'must done');
          if (era === 'stateful') assert.deepEqual(result._meta[RELATED], { taskId: task.taskId });
          else assert.equal(result._meta, undefined);
          const ended = await client.get(task.taskId);
          assert.deepEqual([ended.taskId, ended.status, ended.vendor], [task.taskId, 'completed', { n: 1.5 }]);
        });

        test(`${where}: an input request of the task reaches the client, and the answer the server`, async () => {
          const client = await open();
          const { taskId } = await client.start(named('ask'), { message: 'your name?' });
          if (era === 'stateless') {
            const waiting = await client.until(taskId, 'input_required');
            const [question] = Object.values(waiting.inputRequests) as {
              method: string;
              params: { message: string };
            }[];
            assert.deepEqual([question!.method, question!.params.message], ['elicitation/create', 'your name?']);
            assert.equal((question!.params as { _meta?: object })._meta, undefined);
          }
          const { result } = await client.outcome(taskId, { action: 'accept', content: { name: 'Ada' } });
          assert.match(result.content[0].text, /"action":"accept","content":\{"name":"Ada"\}/);
          if (era === 'stateful') {
            assert.deepEqual(client.wire.asked[0].params._meta[RELATED], { taskId });
            assert.equal(client.wire.asked[0].params.message, 'your name?');
          }
        });

        test(`${where}: errors of the protocol and of the tool have their own status`, async () => {
          const client = await open();
          const broken = await client.start(named('fail'));
          const { error } = await client.outcome(broken.taskId);
          assert.deepEqual([error.code, error.message], [-32603, 'it broke']);
          assert.equal((await client.get(broken.taskId)).status, 'failed');
          if (era === 'stateless' && server.endsWith('stateful')) return;
          const odd = await client.start(named('tool-error'));
          const { result } = await client.outcome(odd.taskId);
          assert.equal(result.isError, true);
        });

        test(`${where}: a cancelled task is cancelled at its server, and cannot be cancelled again`, async () => {
          const client = await open();
          const { taskId } = await client.start(named('endless'));
          const answer = await client.wire.result('tasks/cancel', { taskId });
          if (era === 'stateful') assert.deepEqual([answer.taskId, answer.status], [taskId, 'cancelled']);
          else assert.deepEqual(answer, { resultType: 'complete' });
          assert.equal((await client.until(taskId)).status, 'cancelled');
          if (era === 'stateful') {
            assert.equal((await client.refusal('tasks/cancel', { taskId })).code, -32602);
          } else {
            assert.deepEqual(await client.wire.result('tasks/cancel', { taskId }), { resultType: 'complete' });
          }
        });

        test(`proto:S3 ${where}: only its principal knows a task`, async () => {
          const client = await open();
          const { taskId } = await client.start(named('endless'));
          const eve = await open('bob');
          const requests = era === 'stateful' ? ['tasks/get', 'tasks/result'] : ['tasks/get', 'tasks/update'];
          for (const method of [...requests, 'tasks/cancel']) {
            assert.equal((await eve.refusal(method, { taskId, inputResponses: {} })).code, -32602, method);
          }
          assert.equal((await client.get(taskId)).status, 'working');
          if (era === 'stateful') {
            const own = (await client.wire.result('tasks/list')).tasks.map((task: { taskId: string }) => task.taskId);
            assert.ok(own.includes(taskId));
            const others = (await eve.wire.result('tasks/list')).tasks;
            assert.ok(!others.some((task: { taskId: string }) => task.taskId === taskId));
          }
          await client.wire.result('tasks/cancel', { taskId });
        });

        test(`${where}: a client without tasks gets the answer of a tool that makes only tasks`, async () => {
          const url = aggregate ? gateway.mcpUrl : gateway.serverUrl(server);
          const options = { headers: keyOf('ada'), capabilities: { elicitation: {} } };
          const plain = era === 'stateful' ? await WireClient.open(url, options) : new WireClient(url, era, options);
          const { status, message } = await plain.request('tools/call', { name: named('must'), arguments: {} });
          if (era === 'stateless' && server.endsWith('stateless')) {
            // Client and server share the extension's era: the gateway passes the server's error on.
            assert.deepEqual([status, message.error.code], [400, -32021]);
          } else {
            assert.equal(message.result.content[0].text, 'must done');
            assert.equal(message.result._meta?.[RELATED], undefined);
          }
        });
      }
    }
  }
});

test('an immediate answer of a stateless server becomes a completed task, kept for its ttl', async (t) => {
  const [gateway, server] = await alone(t, 'stateless');
  for (const [url, tool] of [
    [gateway.mcpUrl, 's__now'],
    [gateway.serverUrl('s'), 'now'],
  ] as const) {
    const client = await TaskClient.open(url, 'stateful', { headers: keyOf('ada') });
    const task = await client.start(tool, { message: 'hello' }, { task: { ttl: 500 } });
    assert.deepEqual([task.status, task.ttl], ['completed', 500]);
    assert.match(task.createdAt, /^\d{4}-\d\d-\d\dT/);
    const { result } = await client.outcome(task.taskId);
    assert.equal(result.content[0].text, 'hello');
    assert.deepEqual(result._meta[RELATED], { taskId: task.taskId });
    assert.equal(result.resultType, undefined);
    assert.equal((await client.get(task.taskId)).status, 'completed');
    assert.match(
      (await client.refusal('tasks/cancel', { taskId: task.taskId })).message,
      /terminal status 'completed'/,
    );
    const eve = await TaskClient.open(url, 'stateful', { headers: keyOf('bob') });
    assert.equal((await eve.refusal('tasks/result', { taskId: task.taskId })).code, -32602);
    assert.equal((await client.gone(task.taskId)).code, -32602);
  }
  assert.deepEqual(server.peer.jobs.ledger, []);
});

test('proto:S5 clients see tasks declared in their era’s form; the client’s own task capability is not passed on', async (t) => {
  const modern = await TaskServer.start('stateless');
  t.after(() => modern.stop());
  const [gateway, legacy] = await alone(t, 'stateful', { m: { type: 'http', url: modern.url } });
  const all = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
  const own = {
    elicitation: {},
    tasks: { list: {}, requests: { elicitation: { create: {} } } },
    extensions: { 'x/y': {} },
  };
  for (const [url, server] of [
    [gateway.mcpUrl, ''],
    [gateway.serverUrl('s'), 's'],
    [gateway.serverUrl('m'), 'm'],
  ] as const) {
    const old = new WireClient(url, 'stateful', { headers: keyOf('ada'), capabilities: own });
    const { capabilities } = await old.initialize();
    assert.deepEqual(capabilities.tasks, all, server);
    const { tools } = await old.result('tools/list');
    const named = (name: string) => tools.find((tool: Json) => tool.name.endsWith(name)).execution;
    if (server === 'm') assert.deepEqual(named('now'), { taskSupport: 'optional' });
    if (server === 's') assert.deepEqual([named('must').taskSupport, named('now')], ['required', undefined]);
    const young = new WireClient(url, 'stateless', { headers: keyOf('ada'), capabilities: { elicitation: {} } });
    const handshake = await young.result('server/discover');
    assert.deepEqual(handshake.capabilities.extensions, { 'io.modelcontextprotocol/tasks': {} }, server);
    assert.equal(handshake.capabilities.tasks, undefined);
    const listed = await young.result('tools/list');
    assert.ok(listed.tools.every((tool: Json) => tool.execution === undefined));
    assert.equal((await young.request('tasks/list')).status, 404);
    assert.equal((await young.request('tasks/result', { taskId: 'x' })).status, 404);
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { status, message } = await young.request(method, { taskId: 'x', inputResponses: {} });
      assert.deepEqual([status, message.error.code], [400, -32021], method);
      assert.ok('io.modelcontextprotocol/tasks' in message.error.data.requiredCapabilities.extensions);
    }
    const listen = await young.request('subscriptions/listen', { notifications: { taskIds: ['x'] } });
    assert.deepEqual([listen.status, listen.message.error.code], [400, -32021]);
  }
  const client = await TaskClient.open(gateway.mcpUrl, 'stateful', { headers: keyOf('ada'), capabilities: own });
  for (const server of ['s', 'm']) await client.outcome((await client.start(`${server}__must`)).taskId);
  const plain = await WireClient.open(gateway.mcpUrl, { headers: keyOf('ada'), capabilities: own });
  assert.equal(await plain.callText('m__slow'), 'slow without a task');
  for (const { params } of legacy.peer.of('initialize')) {
    assert.equal(params.capabilities.tasks, undefined);
    assert.equal(params.capabilities.extensions?.['io.modelcontextprotocol/tasks'], undefined);
  }
  const declared = modern.peer
    .of('tools/call')
    .map(({ params }) => params._meta['io.modelcontextprotocol/clientCapabilities']);
  assert.deepEqual(declared, [
    { elicitation: {}, extensions: { 'x/y': {}, 'io.modelcontextprotocol/tasks': {} } },
    { elicitation: {}, extensions: { 'x/y': {} } },
  ]);
});

test('task notifications pass between both eras: on the session’s stream, and on a listen that names the task', async (t) => {
  const [gateway] = await alone(t, 'stateful', { m: stdio('stateless') });
  for (const [url, prefix] of [
    [gateway.mcpUrl, true],
    [null, false],
  ] as const) {
    for (const server of ['s', 'm']) {
      const named = (tool: string) => (prefix ? `${server}__${tool}` : tool);
      const open = (era: Era) => TaskClient.open(url ?? gateway.serverUrl(server), era, { headers: keyOf('ada') });
      const old = await open('stateful');
      const stream = await old.wire.listen();
      const { taskId } = await old.start(named('must'));
      const result = old.outcome(taskId);
      const news = await next(stream, 'notifications/tasks/status');
      assert.deepEqual([news.params.taskId, news.params.status, news.params.ttl], [taskId, 'completed', 60_000]);
      assert.equal((await result).result.content[0].text, 'must done');
      stream.drop();

      const young = await open('stateless');
      const task = await young.start(named('must'));
      const listen = await young.wire.listening({ taskIds: [task.taskId] });
      await young.get(task.taskId);
      await young.get(task.taskId);
      const reported = await next(listen, 'notifications/tasks');
      assert.deepEqual([reported.params.taskId, reported.params.status], [task.taskId, 'completed']);
      assert.equal(reported.params.result.content[0].text, 'must done');
      assert.ok('io.modelcontextprotocol/subscriptionId' in reported.params._meta);
      listen.drop();
    }
  }
});

async function next(stream: Pick<EventReader, 'message'>, method: string): Promise<Json> {
  for (;;) {
    const message = await stream.message();
    if (message === null) throw new Error(`the stream ended before ${method}`);
    if (message.method === method) return message;
  }
}

test('progress of a task that the gateway awaits for a client comes with the client’s own call', async (t) => {
  const [gateway, server] = await alone(t, 'stateful', { p: stdio('stateful') });
  for (const name of ['s', 'p']) {
    const client = await WireClient.open(gateway.mcpUrl, { headers: keyOf('ada') });
    // This fixture sends messages that belong to no request on its GET stream, which must be open first.
    await server.stage.until(() => name === 'p' || server.stage.of('GET').length > 0);
    const params = { name: `${name}__must`, arguments: { steps: 3 }, _meta: { progressToken: 'mine' } };
    const { message, before } = await client.request('tools/call', params);
    assert.equal(message.result.content[0].text, 'must done');
    if (name === 's') continue;
    const progress = before.filter(({ method }) => method === 'notifications/progress');
    assert.ok(progress.length > 0);
    assert.equal(progress[0].params.progressToken, 'mine');
  }
});

test('a wait that the gateway gives up for a client is cancelled at its server', async (t) => {
  const modern = await TaskServer.start('stateless');
  t.after(() => modern.stop());
  const [gateway, legacy] = await alone(t, 'stateful', { m: { type: 'http', url: modern.url } });
  for (const [name, server] of [
    ['s', legacy],
    ['m', modern],
  ] as const) {
    const client = await WireClient.open(gateway.mcpUrl, { headers: keyOf('ada') });
    const id = 4711;
    const call = { jsonrpc: '2.0', id, method: 'tools/call', params: { name: `${name}__endless`, arguments: {} } };
    const answered = client.post(call);
    await server.stage.until(() => server.peer.jobs.ledger.includes('look job-1'));
    await client.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
    await server.stage.until(() => server.peer.jobs.ledger.includes('cancel job-1'));
    (await answered).drop();
  }
});

test('tasks of stateless clients share a pipe: one that waits for input does not block others, and names its task', async (t) => {
  const [gateway] = await alone(t, 'stateful', { p: stdio('stateful') });
  const client = await TaskClient.open(gateway.mcpUrl, 'stateless', { headers: keyOf('ada') });
  const first = await client.start('p__ask', { message: 'first?' });
  assert.equal((await client.until(first.taskId, 'input_required')).status, 'input_required');
  const second = await client.start('p__ask', { message: 'second?' });
  const third = await client.start('p__must');
  const question = (await client.until(second.taskId, 'input_required')).inputRequests;
  assert.equal((Object.values(question)[0] as Json).params.message, 'second?');
  assert.equal((await client.outcome(third.taskId)).result.content[0].text, 'must done');
  const plain = new WireClient(gateway.mcpUrl, 'stateless', {
    headers: keyOf('ada'),
    capabilities: client.wire.capabilities,
  });
  assert.equal(await plain.callText('p__slow'), 'slow without a task');
  for (const [{ taskId }, name] of [
    [second, 'Bea'],
    [first, 'Ada'],
  ] as const) {
    const { result } = await client.outcome(taskId, { action: 'accept', content: { name } });
    assert.match(result.content[0].text, new RegExp(name));
  }
});

test('server-everything over stdio: its task with an ambiguous input request', async (t) => {
  const bin = resolve(import.meta.dirname, '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js');
  const every = { command: process.execPath, args: [bin, 'stdio'] };
  const gateway = await RunningGateway.start({ config: { mcpServers: { every } } });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const args = { topic: 'python', ambiguous: true };
  const said = { action: 'accept', content: { interpretation: 'snake' } };
  const report = /Research Report: python \(snake\)/;
  const url = gateway.serverUrl('every');
  // The gateway lists the server for each kind of client, one after the other.
  const clients = [
    [await TaskClient.open(gateway.mcpUrl, 'stateful'), 'every__simulate-research-query'],
    [await TaskClient.open(url, 'stateful'), 'simulate-research-query'],
    [await TaskClient.open(gateway.mcpUrl, 'stateless'), 'every__simulate-research-query'],
    [await TaskClient.open(url, 'stateless'), 'simulate-research-query'],
  ] as const;
  for (const [client] of clients) await client.wire.result('tools/list');
  const plain = await WireClient.open(gateway.mcpUrl, { capabilities: { elicitation: {} } });
  plain.answer = () => said;
  const answered = plain.call('every__simulate-research-query', args);
  await Promise.all(
    clients.map(async ([client, name]) => {
      const { taskId } = await client.start(name, args);
      const { result } = await client.outcome(taskId, said);
      assert.match(result.content[0].text, report);
      assert.equal((await client.get(taskId)).status, 'completed');
    }),
  );
  assert.match((await answered).content[0].text, report);
});
