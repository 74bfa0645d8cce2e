import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { client, ended, GatewayBench, NO_RECORDS } from '../../../test/support/gateway-bench.ts';
import { ANSWER } from '../../../test/support/new-task.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { mergedTask } from '../../model/merged-task.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { TaskObserver, TaskRecord } from '../../model/ports.ts';
import { TaskSizes } from '../../model/task-sizes.ts';
import { result } from '../../protocol/compose.ts';
import { Metrics } from '../../telemetry/metrics.ts';

const TASKS = { capabilities: '{"extensions":{"io.modelcontextprotocol/tasks":{}}}' };
const OFFERS = {
  jobs: { tools: [tool('run')], capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } } },
};

/** A gateway that shares its tasks with another node: a task is in memory while the observer has it, else in `stored`. */
function inMemoryNode() {
  const shared = {
    nodes: 2,
    maxTasks: 4,
    inMemory: new TaskSizes(),
    own: new TaskSizes(),
    setObserver: (theirs: TaskObserver) => void (node.observer = theirs),
    forget: () => {},
    read: async ({ server, taskId }: Pick<TaskRecord, 'server' | 'taskId'>) => {
      if (node.away !== null) throw node.away;
      for (const one of node.stored) if (server === one.server && taskId === one.taskId) node.observer.received(one);
    },
    publishedTotal: () => 0,
  };
  const taskRecords = { ...NO_RECORDS, shared, put: (record: TaskRecord) => void node.stored.push(record) };
  const bench = new GatewayBench(OFFERS, {}, new Metrics(), { taskRecords });
  const task = '"taskId":"t-1","status":"working","ttl":60000';
  bench.upstreams.respond = ({ request }) =>
    answer(result('1', request.method === 'tools/call' ? `{"task":{${task}}}` : `{${task}}`, 'stateful'));
  const node = {
    bench,
    stored: [] as TaskRecord[],
    away: null as GatewayError | null,
    observer: null as unknown as TaskObserver,
    async begun(more: Parameters<GatewayBench['run']>[2] = {}): Promise<string> {
      const outcome = ended(await bench.run('tools/call', '{"name":"jobs__run","task":{"ttl":60000}}', more));
      return JSON.stringify({ taskId: (outcome as { task: { taskId: string } }).task.taskId });
    },
  };
  return node;
}

const AWAY = new GatewayError('NOT_SENT', 'the store is away');

test('a request for a task that is not in memory reads it, and is NOT_SENT where that fails', async () => {
  const node = inMemoryNode();
  const params = await node.begun();
  node.observer.removed(node.stored[0]!.key);
  node.away = AWAY;
  const refused = await node.bench.run('tasks/get', params);
  assert.equal(refused.kind === 'failure' && refused.error.code, 'NOT_SENT');
  node.away = null;
  const found = ended(await node.bench.run('tasks/get', params));
  assert.equal((found as { taskId: string }).taskId, JSON.parse(params).taskId);
});

test('of two tasks with one id a request gets the task of its session, also if it is not in memory', async () => {
  const node = inMemoryNode();
  const [own, other] = ['own', 'other'].map((sessionId) => ({ client: client('stateful', { sessionId }) }));
  const params = await node.begun(own);
  await node.begun(other);
  node.observer.removed(node.stored[0]!.key);
  await node.bench.run('tasks/get', params, own);
  assert.notEqual(node.observer.get(node.stored[0]!.key), null);
  node.observer.removed(node.stored[0]!.key);
  // In an outage the request gets the task that is in memory.
  node.away = AWAY;
  assert.equal((await node.bench.run('tasks/get', params, own)).kind, 'answer');
});

test('a task stays in memory while a caller waits for its answer', async () => {
  const node = inMemoryNode();
  const params = await node.begun();
  const [record] = node.stored;
  node.observer.removed(record!.key);
  const end = Promise.withResolvers<Outcome>();
  node.bench.upstreams.respond = () => end.promise;
  const waiting = node.bench.run('tasks/result', params);
  await settled();
  assert.equal(node.observer.mustKeep(record!.key), true);
  end.resolve(answer(result('1', '{"content":[]}', 'stateful')));
  await waiting;
  assert.equal(node.observer.mustKeep(record!.key), false);
  assert.equal(node.stored.at(-1)!.status, 'completed');
});

test('a listen for tasks that cannot be read is NOT_SENT', async () => {
  const node = inMemoryNode();
  const stateless = { era: 'stateless', client: client('stateless', TASKS) } as const;
  const { taskId } = JSON.parse(await node.begun({ client: client('stateful', { sessionId: null }) }));
  node.observer.removed(node.stored[0]!.key);
  node.away = AWAY;
  const outcome = await node.bench.run(
    'subscriptions/listen',
    `{"notifications":{"taskIds":["${taskId}"]}}`,
    stateless,
  );
  assert.equal(outcome.kind === 'failure' && outcome.error.code, 'NOT_SENT');
});

test('a server is not asked for a task that the gateway made, whose long answer is at another node', async () => {
  const node = inMemoryNode();
  const params = await node.begun({ client: client('stateful', { sessionId: null }) });
  const description = Buffer.from('{"taskId":"t-1","status":"completed"}');
  node.stored[0] = { ...node.stored[0]!, era: null, status: 'completed', description };
  node.observer.received(node.stored[0]!);
  const asked = node.bench.upstreams.calls.length;
  const { status } = ended(await node.bench.run('tasks/get', params)) as { status: string };
  assert.equal(status, 'completed');
  const result = await node.bench.run('tasks/result', params);
  const stateless = { era: 'stateless', client: client('stateless', TASKS) } as const;
  const got = await node.bench.run('tasks/get', params, stateless);
  for (const outcome of [result, got])
    assert.match(outcome.kind === 'failure' ? outcome.error.message : '', /not kept/);
  assert.equal(node.bench.upstreams.calls.length, asked);
});

test('an error that a server answers later does not replace the result that another node has', () => {
  const known = { status: 'completed', sessionId: null, answer: ANSWER } as TaskRecord;
  const error = { ...ANSWER, kind: 'error', body: Buffer.from('{"code":-32602,"message":"unknown task"}') } as const;
  assert.deepEqual(mergedTask({ ...known, answer: error }, known).answer, ANSWER);
  assert.deepEqual(mergedTask(known, { ...known, answer: error }).answer, ANSWER);
  assert.equal(mergedTask({ ...known, answer: error }, { ...known, answer: null }).answer, error);
});
