import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { TaskClient } from '../support/task-client.ts';
import { agents, alone, ERAS, keyOf, stdio } from '../support/task-gateway.ts';

/** The same gateway after a crash, on its state. */
async function restarted(t: TestContext, gateway: RunningGateway, servers: object): Promise<RunningGateway> {
  const { port } = new URL(gateway.mcpUrl);
  // Delayed writes are on disk after at most 100 ms.
  await sleep(200);
  await gateway.stop('SIGKILL');
  const config = { mcpServers: servers, agents };
  const again = await RunningGateway.start({ config, folder: gateway.folder, args: ['--port', port] });
  t.after(() => again.dispose());
  return again;
}

for (const era of ERAS) {
  for (const serverEra of ERAS) {
    test(`S2.29 a ${era} client’s tasks at a ${serverEra} server go on after a kill -9 of the gateway`, async (t) => {
      const [gateway, server] = await alone(t, serverEra);
      const client = await TaskClient.open(gateway.mcpUrl, era, { headers: keyOf('ada') });
      const running = await client.start('s__ask');
      const ended = await client.start('s__must');
      await client.outcome(ended.taskId);
      const again = await restarted(t, gateway, { s: { type: 'http', url: server.url } });
      const looks = server.peer.jobs.ledger.length;
      const { result: kept } = await client.outcome(ended.taskId);
      assert.equal(kept.content[0].text, 'must done');
      assert.equal(server.peer.jobs.ledger.length, looks, 'the kept outcome is not requested again');
      const { result } = await client.outcome(running.taskId, { action: 'accept', content: { name: 'Ada' } });
      assert.match(result.content[0].text, /Ada/);
      const eve = await TaskClient.open(again.mcpUrl, era, { headers: keyOf('bob') });
      assert.equal((await eve.refusal('tasks/get', { taskId: running.taskId })).code, -32602);
      if (era === 'stateless') return;
      const { tasks } = await client.wire.result('tasks/list');
      assert.deepEqual(
        tasks.map((task: Json) => [task.taskId, task.status]),
        [
          [running.taskId, 'completed'],
          [ended.taskId, 'completed'],
        ],
      );
    });

    test(`a ${era} client’s task at a ${serverEra} server is unknown once its ttl is over`, async (t) => {
      const [gateway, server] = await alone(t, serverEra);
      const client = await TaskClient.open(gateway.mcpUrl, era, { headers: keyOf('ada') });
      const { taskId } = await client.start('s__endless', { ttl: 400 });
      const error = await client.gone(taskId);
      assert.equal(error.code, -32602);
      assert.ok(server.peer.jobs.all.has('job-1'), 'its server still has it');
      if (era === 'stateful') assert.deepEqual((await client.wire.result('tasks/list')).tasks, []);
    });
  }

  test(`the answer of a local process to a ${era} client is still there after a restart`, async (t) => {
    const servers = { s: stdio('stateful') };
    const gateway = await RunningGateway.start({ config: { mcpServers: servers, agents } });
    t.after(() => gateway.dispose());
    const client = await TaskClient.open(gateway.serverUrl('s'), era, { headers: keyOf('ada') });
    const { taskId } = await client.start('must');
    await client.until(taskId);
    await restarted(t, gateway, servers);
    assert.equal((await client.outcome(taskId)).result.content[0].text, 'must done');
  });

  test(`a ${era} client that returns in another session, or after its stream broke, finds its task`, async (t) => {
    const [gateway] = await alone(t, 'stateful', { m: stdio('stateless') });
    for (const server of ['s', 'm']) {
      const client = await TaskClient.open(gateway.mcpUrl, era, { headers: keyOf('ada') });
      const { taskId } = await client.start(`${server}__ask`);
      if (era === 'stateful') {
        const id = 4711;
        const broken = await client.wire.post({ jsonrpc: '2.0', id, method: 'tasks/result', params: { taskId } });
        await broken.message();
        broken.drop();
      }
      const other = await TaskClient.open(gateway.mcpUrl, era, { headers: keyOf('ada') });
      assert.notEqual((await other.get(taskId)).status, 'completed');
      if (era === 'stateful') {
        // The input request is still open on the first stream; a cancellation in either session ends the task for both.
        assert.equal((await other.wire.result('tasks/cancel', { taskId })).status, 'cancelled');
        assert.equal((await client.get(taskId)).status, 'cancelled');
      } else {
        const { result } = await other.outcome(taskId, { action: 'accept', content: { name: 'Ada' } });
        assert.match(result.content[0].text, /Ada/);
      }
    }
  });
}
