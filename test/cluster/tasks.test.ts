import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TaskServer } from '../fixtures/tasks/http.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses } from '../support/cluster-processes.ts';
import { TaskClient } from '../support/task-client.ts';
import { agents, ERAS, keyOf } from '../support/task-gateway.ts';

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
