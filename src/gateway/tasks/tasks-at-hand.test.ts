import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ended, GatewayBench, NO_RECORDS } from '../../../test/support/gateway-bench.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer } from '../../model/outcome.ts';
import type { TaskFollower, TaskRecord } from '../../model/ports.ts';
import { TaskSizes } from '../../model/task-sizes.ts';
import { result } from '../../protocol/compose.ts';
import { Metrics } from '../../telemetry/metrics.ts';

const OFFERS = {
  jobs: { tools: [tool('run')], capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } } },
};

test('a request for a task that is not at hand reads it, and is NOT_SENT where that fails', async () => {
  let follower!: TaskFollower;
  let stored!: TaskRecord;
  let away: GatewayError | null = null;
  const shared = {
    nodes: 2,
    maxTasks: 4,
    atHand: new TaskSizes(),
    own: new TaskSizes(),
    follow: (theirs: TaskFollower) => void (follower = theirs),
    forget: () => {},
    read: async ({ server, taskId }: Pick<TaskRecord, 'server' | 'taskId'>) => {
      if (away !== null) throw away;
      if (server === stored.server && taskId === stored.taskId) follower.heard(stored);
    },
    counted: () => 0,
  };
  const taskRecords = { ...NO_RECORDS, shared, put: (record: TaskRecord) => void (stored = record) };
  const bench = new GatewayBench(OFFERS, {}, new Metrics(), { taskRecords });
  const task = '"taskId":"t-1","status":"working","ttl":60000';
  bench.upstreams.respond = ({ request }) =>
    answer(result('1', request.method === 'tools/call' ? `{"task":{${task}}}` : `{${task}}`, 'stateful'));
  const begun = ended(await bench.run('tools/call', '{"name":"jobs__run","task":{"ttl":60000}}'));
  const { taskId } = (begun as { task: { taskId: string } }).task;
  follower.gone(stored.key);
  away = new GatewayError('NOT_SENT', 'the store is away');
  const refused = await bench.run('tasks/get', JSON.stringify({ taskId }));
  assert.equal(refused.kind === 'failure' && refused.error.code, 'NOT_SENT');
  away = null;
  const found = ended(await bench.run('tasks/get', JSON.stringify({ taskId })));
  assert.equal((found as { taskId: string }).taskId, taskId);
});
