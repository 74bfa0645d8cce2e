import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { client, ended, GatewayBench, NO_RECORDS } from '../../../test/support/gateway-bench.ts';
import { ANSWER } from '../../../test/support/new-task.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { joinedTask } from '../../model/joined-task.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { TaskFollower, TaskRecord } from '../../model/ports.ts';
import { TaskSizes } from '../../model/task-sizes.ts';
import { result } from '../../protocol/compose.ts';
import { Metrics } from '../../telemetry/metrics.ts';

const TASKS = { capabilities: '{"extensions":{"io.modelcontextprotocol/tasks":{}}}' };
const OFFERS = {
  jobs: { tools: [tool('run')], capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } } },
};

/** A gateway of which another node has tasks too: one is at hand as long as the follower has it, and `stored` otherwise. */
function atHand() {
  const shared = {
    nodes: 2,
    maxTasks: 4,
    atHand: new TaskSizes(),
    own: new TaskSizes(),
    follow: (theirs: TaskFollower) => void (node.follower = theirs),
    forget: () => {},
    read: async ({ server, taskId }: Pick<TaskRecord, 'server' | 'taskId'>) => {
      if (node.away !== null) throw node.away;
      for (const one of node.stored) if (server === one.server && taskId === one.taskId) node.follower.heard(one);
    },
    counted: () => 0,
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
    follower: null as unknown as TaskFollower,
    async begun(more: Parameters<GatewayBench['run']>[2] = {}): Promise<string> {
      const outcome = ended(await bench.run('tools/call', '{"name":"jobs__run","task":{"ttl":60000}}', more));
      return JSON.stringify({ taskId: (outcome as { task: { taskId: string } }).task.taskId });
    },
  };
  return node;
}

const AWAY = new GatewayError('NOT_SENT', 'the store is away');

test('a request for a task that is not at hand reads it, and is NOT_SENT where that fails', async () => {
  const node = atHand();
  const params = await node.begun();
  node.follower.gone(node.stored[0]!.key);
  node.away = AWAY;
  const refused = await node.bench.run('tasks/get', params);
  assert.equal(refused.kind === 'failure' && refused.error.code, 'NOT_SENT');
  node.away = null;
  const found = ended(await node.bench.run('tasks/get', params));
  assert.equal((found as { taskId: string }).taskId, JSON.parse(params).taskId);
});

test('of two tasks of one id that of the own session counts, also where it is not at hand', async () => {
  const node = atHand();
  const [own, other] = ['own', 'other'].map((sessionId) => ({ client: client('stateful', { sessionId }) }));
  const params = await node.begun(own);
  await node.begun(other);
  node.follower.gone(node.stored[0]!.key);
  await node.bench.run('tasks/get', params, own);
  assert.notEqual(node.follower.get(node.stored[0]!.key), null);
  node.follower.gone(node.stored[0]!.key);
  // In an outage the one that is at hand is taken.
  node.away = AWAY;
  assert.equal((await node.bench.run('tasks/get', params, own)).kind, 'answer');
});

test('a task stays at hand as long as its answer is waited for', async () => {
  const node = atHand();
  const params = await node.begun();
  const [record] = node.stored;
  node.follower.gone(record!.key);
  const end = Promise.withResolvers<Outcome>();
  node.bench.upstreams.respond = () => end.promise;
  const waiting = node.bench.run('tasks/result', params);
  await settled();
  assert.equal(node.follower.keeps(record!.key), true);
  end.resolve(answer(result('1', '{"content":[]}', 'stateful')));
  await waiting;
  assert.equal(node.follower.keeps(record!.key), false);
  assert.equal(node.stored.at(-1)!.status, 'completed');
});

test('a listen for tasks that cannot be read is NOT_SENT', async () => {
  const node = atHand();
  const stateless = { era: 'stateless', client: client('stateless', TASKS) } as const;
  const { taskId } = JSON.parse(await node.begun({ client: client('stateful', { sessionId: null }) }));
  node.follower.gone(node.stored[0]!.key);
  node.away = AWAY;
  const outcome = await node.bench.run(
    'subscriptions/listen',
    `{"notifications":{"taskIds":["${taskId}"]}}`,
    stateless,
  );
  assert.equal(outcome.kind === 'failure' && outcome.error.code, 'NOT_SENT');
});

test('a server is not asked for a task that the gateway made, whose long answer is at another node', async () => {
  const node = atHand();
  const params = await node.begun({ client: client('stateful', { sessionId: null }) });
  const description = Buffer.from('{"taskId":"t-1","status":"completed"}');
  node.stored[0] = { ...node.stored[0]!, era: null, status: 'completed', description };
  node.follower.heard(node.stored[0]!);
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
  assert.deepEqual(joinedTask({ ...known, answer: error }, known).answer, ANSWER);
  assert.deepEqual(joinedTask(known, { ...known, answer: error }).answer, ANSWER);
  assert.equal(joinedTask({ ...known, answer: error }, { ...known, answer: null }).answer, error);
});
