import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { TaskServer } from '../fixtures/tasks/http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { type Era, TaskClient } from '../support/task-client.ts';
import { WireClient } from '../support/wire-client.ts';

const ERAS: readonly Era[] = ['stateful', 'stateless'];
const STDIO = resolve(import.meta.dirname, '../fixtures/tasks/stdio.ts');
const RELATED = 'io.modelcontextprotocol/related-task';
const keyOf = (name: string) => ({ authorization: `Bearer key-of-${name}-0123456789` });

function stdio(era: Era): object {
  return { command: process.execPath, args: [STDIO], env: { ERA: era } };
}

const agents = { ada: { key: 'key-of-ada-0123456789' }, bob: { key: 'key-of-bob-0123456789' } };

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

        test(`${where}: a task is begun, ends and gives its answer; unknown fields stay`, async () => {
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

        test(`${where}: what the task asks is asked of the client, and the answer goes up`, async () => {
          const client = await open();
          const { taskId } = await client.start(named('ask'), { message: 'your name?' });
          if (era === 'stateless') {
            const waiting = await client.until(taskId, 'input_required');
            const [question] = Object.values(waiting.inputRequests) as { method: string; params: { message: string } }[];
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

        test(`${where}: errors of the protocol and of the tool each have their word`, async () => {
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

        test(`${where}: a cancelled task is cancelled at its server, and cannot be cancelled twice`, async () => {
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

        test(`proto:S3 ${where}: nobody but its principal knows a task`, async () => {
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

        test(`${where}: a client that knows no tasks gets the answer of a tool that makes only tasks`, async () => {
          const url = aggregate ? gateway.mcpUrl : gateway.serverUrl(server);
          const options = { headers: keyOf('ada'), capabilities: { elicitation: {} } };
          const plain = era === 'stateful' ? await WireClient.open(url, options) : new WireClient(url, era, options);
          const { status, message } = await plain.request('tools/call', { name: named('must'), arguments: {} });
          if (era === 'stateless' && server.endsWith('stateless')) {
            // Both speak of the extension themselves: the server's word stands.
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
