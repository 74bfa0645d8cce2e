import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TaskServer } from '../fixtures/tasks/http.ts';
import { callable, onCluster, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { LeftLog } from '../support/left-log.ts';
import type { EventReader } from '../support/raw-http.ts';
import { TaskClient } from '../support/task-client.ts';
import { agents, ERAS, keyOf } from '../support/task-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

for (const era of ERAS) {
  test(`check:C9 fault:F30 S2.29 a ${era} client’s tasks are known at all nodes, and survive the node that began them`, (t) =>
    cluster(async (nodes) => {
      const [stateful, stateless] = [await TaskServer.start('stateful'), await TaskServer.start('stateless', 'other')];
      t.after(() => Promise.all([stateful.stop(), stateless.stop()]));
      const servers = {
        s: { type: 'http', url: stateful.url },
        m: { type: 'http', url: stateless.url },
      };
      const a = await nodes.node('a', servers, { agents });
      const b = await nodes.node('b', servers, { agents });
      for (const node of [a, b]) await callable(node, 's', 'm');
      const headers = keyOf('ada');
      const [first, second] = [
        await TaskClient.open(a.mcpUrl, era, { headers }),
        await TaskClient.open(b.mcpUrl, era, { headers }),
      ];
      const eve = await TaskClient.open(b.mcpUrl, era, { headers: keyOf('bob') });
      const cancelled = await first.start('s__endless');
      await second.wire.result('tasks/cancel', { taskId: cancelled.taskId });
      assert.equal((await first.get(cancelled.taskId)).status, 'cancelled');
      const tasks: string[] = [];
      for (const server of ['s', 'm']) {
        const { taskId } = await first.start(`${server}__ask`);
        assert.equal((await second.get(taskId)).taskId, taskId);
        assert.equal((await eve.refusal('tasks/get', { taskId })).code, -32602);
        tasks.push(taskId);
      }
      a.kill('SIGKILL');
      await a.exited;
      for (const taskId of tasks) {
        const { result, ...rest } = await second.outcome(taskId, { action: 'accept', content: { name: 'Ada' } });
        assert.match(result?.content[0].text ?? JSON.stringify(rest), /Ada/);
      }
    }));
}

test('check:C9 fault:F30 a call that waits for a task runs once when its client returns to another node than the one that died', (t) =>
  cluster(async (nodes) => {
    await using log = await LeftLog.open(nodes.nats);
    const server = await TaskServer.start('stateful');
    t.after(() => server.stop());
    const a = await nodes.node('a', { s: { type: 'http', url: server.url } });
    const b = await nodes.node('b', {});
    await callable(b, 's');
    const client = await WireClient.open(b.serverUrl('s'), { capabilities: { elicitation: {} } });
    // The task waits for an answer of the client, which never comes.
    const call = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'ask', arguments: {} } };
    const stream = (await client.post(call)) as EventReader;
    const first = await stream.next();
    await until(() => server.peer.of('tasks/result').length === 1, 'the tasks/result request');
    await until(
      async () => (await log.after(client.sessionId!, first!.id!))?.unanswered.length === 1,
      'the call in the log',
    );
    b.kill('SIGKILL');
    await b.exited;
    client.url = a.serverUrl('s');
    const rest = await (await client.listen(first!.id!)).rest();
    assert.equal(server.peer.of('tools/call').length, 1);
    const answer = JSON.parse(rest.at(-1)!.data);
    assert.deepEqual([answer.id, wordOf(answer)], [7, 'UNKNOWN']);
  }));
