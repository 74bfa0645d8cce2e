import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import {
  agent,
  type Call,
  client,
  dispatchTo,
  ended,
  endpointOf,
  GatewayBench,
  MCP,
  NO_RECORDS,
} from '../../../test/support/gateway-bench.ts';
import { newTask as taskOf, UNHEARD } from '../../../test/support/new-task.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { SpanLog } from '../../../test/support/span-log.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { errorAnswer, notification, request, result } from '../../protocol/compose.ts';
import { CallLog } from '../../telemetry/call-log.ts';
import { Logger } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { Tracer } from '../../telemetry/tracing.ts';
import { Sealer } from '../sealer.ts';
import { Target } from '../target.ts';
import { TaskCalls } from './task-calls.ts';
import { newTask } from './task-creation.ts';
import { TaskIds } from './task-ids.ts';
import { TaskTable } from './task-table.ts';
import { createdTask } from './task-views.ts';

const TASKS = { capabilities: '{"extensions":{"io.modelcontextprotocol/tasks":{}}}' };
const OFFERS = {
  jobs: {
    tools: [tool('run'), tool('must', ',"execution":{"taskSupport":"required"}')],
    capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
  },
  young: {
    era: 'stateless',
    tools: [tool('run')],
    capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
  } as const,
};

function code(outcome: Outcome): string {
  return outcome.kind === 'failure' ? outcome.error.code : 'answer';
}

async function started(bench: GatewayBench, ttl = '1.0'): Promise<string> {
  bench.upstreams.respond = () =>
    answer(result('1', `{"task":{"taskId":"t-1","status":"working","ttl":${ttl}}}`, 'stateful'));
  const outcome = await bench.run('tools/call', '{"name":"jobs__run","task":{"ttl":60000}}');
  const { task } = ended(outcome) as { task: { taskId: string; status: string } };
  assert.equal(task.status, 'working');
  assert.notEqual(task.taskId, 't-1');
  return task.taskId;
}

test('every request with a task’s id reaches the server of the task', async () => {
  const bench = new GatewayBench(OFFERS);
  const taskId = await started(bench);
  bench.upstreams.respond = ({ request: sent }: Call) =>
    answer(
      result(
        '1',
        `{"taskId":${JSON.stringify(JSON.parse(sent.body.toString()).taskId)},"status":"working"}`,
        'stateful',
      ),
    );
  for (const method of ['tasks/get', 'tasks/cancel', 'tasks/result']) {
    const outcome = await bench.run(method, JSON.stringify({ taskId }));
    const call = bench.upstreams.calls.at(-1)!;
    assert.equal(call.server, 'jobs');
    assert.equal(call.request.body.toString(), '{"taskId":"t-1"}');
    assert.deepEqual(ended(outcome), { taskId, status: 'working' });
  }
});

test('a new caller with the name of a removed one does not get its tasks', async () => {
  const bench = new GatewayBench(OFFERS);
  const taskId = await started(bench);
  const listed = async () => (ended(await bench.run('tasks/list', '{}')) as { tasks: unknown[] }).tasks.length;
  bench.gateway.tasks.forget('agent:another');
  assert.equal(await listed(), 1);
  bench.gateway.tasks.forget('anonymous');
  assert.equal(await listed(), 0);
  assert.equal(code(await bench.run('tasks/result', JSON.stringify({ taskId }))), 'INVALID_PARAMS');
});

test('a request about a task is sent under the span of its exchange', async () => {
  const spans = new SpanLog();
  const bench = new GatewayBench(OFFERS, {}, new Metrics(), {
    tracer: new Tracer(spans, new FakeClock(), systemRandom),
  });
  const taskId = await started(bench);
  for (const method of ['tasks/get', 'tasks/cancel', 'tasks/result']) {
    spans.spans.length = 0;
    await bench.run(method, JSON.stringify({ taskId }));
    assert.equal(spans.one('dispatch jobs', 'internal').parentId, spans.one(method, 'server').spanId, method);
  }
});

test('a task’s id is valid for its principal only, and altered ids are refused', async () => {
  const bench = new GatewayBench(OFFERS);
  const taskId = await started(bench);
  const before = bench.upstreams.calls.length;
  const other = client('stateful', { principal: agent('eve', 'jobs') });
  assert.equal(code(await bench.run('tasks/get', JSON.stringify({ taskId }), { client: other })), 'INVALID_PARAMS');
  const altered = taskId.slice(0, -1) + (taskId.endsWith('A') ? 'B' : 'A');
  assert.equal(code(await bench.run('tasks/get', JSON.stringify({ taskId: altered }))), 'INVALID_PARAMS');
  assert.equal(code(await bench.run('tasks/get', '{"taskId":"t-1"}')), 'INVALID_PARAMS');
  assert.equal(bench.upstreams.calls.length, before);
});

test('a task id without a record is refused to a client of a kind that never used the server before', async () => {
  const bench = new GatewayBench(OFFERS);
  const other = client('stateful', { fingerprint: '{"roots":{}}' });
  const jobs = { client: other, endpoint: endpointOf('jobs') };
  assert.equal(code(await bench.run('tasks/get', '{"taskId":"t-1"}', jobs)), 'INVALID_PARAMS');
  assert.equal(bench.upstreams.calls.length, 0);
});

test('the list of all tasks leaves out members of a task that are not valid JSON', async () => {
  const bench = new GatewayBench(OFFERS);
  await started(bench);
  const odd = '"taskId":"t-2","status":"working","ttl":60000,"statusMessage":"so far","x":NaN,"y":"\\x41"';
  bench.upstreams.respond = () => answer(result('1', `{"task":{${odd}}}`, 'stateful'));
  await bench.run('tools/call', '{"name":"jobs__run","task":{"ttl":60000}}');
  const { tasks } = ended(await bench.run('tasks/list', null)) as { tasks: readonly { taskId: string }[] };
  assert.deepEqual(
    tasks.map(({ taskId, ...rest }) => rest),
    [
      { status: 'working', ttl: 1 },
      { status: 'working', ttl: 60_000, statusMessage: 'so far' },
    ],
  );
});

test('a listen with members that only the server knows is refused if it names a task of another caller', async () => {
  const bench = new GatewayBench(OFFERS);
  const [ada, eve] = ['ada', 'eve'].map((name) => ({
    client: client('stateless', { ...TASKS, principal: agent(name, 'young') }),
    endpoint: endpointOf('young'),
  }));
  const task = '{"resultType":"task","taskId":"t-9","status":"working"}';
  bench.upstreams.respond = () => answer(result('1', task, 'stateless'));
  await bench.run('tools/call', '{"name":"run"}', ada);
  const listen = '{"notifications":{"taskIds":["t-9"],"vendorThing":true}}';
  assert.equal(code(await bench.run('subscriptions/listen', listen, eve)), 'INVALID_PARAMS');
  const sent = () => bench.upstreams.calls.map(({ request: { method } }) => method);
  assert.deepEqual(sent(), ['tools/call']);
  await bench.run('subscriptions/listen', listen, ada);
  assert.deepEqual(sent(), ['tools/call', 'subscriptions/listen'], 'the listen of the task’s own caller is relayed');
});

test('the gateway listens for the status of a session’s task at a stateless server until the session ends', async () => {
  const bench = new GatewayBench(OFFERS);
  const task = '"taskId":"t-9","status":"working","ttlMs":60000';
  bench.upstreams.respond = ({ request: { method } }) =>
    method === 'subscriptions/listen'
      ? new Promise(() => {})
      : answer(result('1', `{"resultType":"task",${task}}`, 'stateless'));
  const begun = ended(await bench.run('tools/call', CALLS[1]!)) as { task: { taskId: string } };
  await bench.run('tasks/get', JSON.stringify({ taskId: begun.task.taskId }));
  const open = () =>
    bench.upstreams.calls.filter(
      ({ request: { method }, exchange }) => method === 'subscriptions/listen' && exchange.cancelled === null,
    ).length;
  await settled();
  assert.equal(open(), 1);
  bench.gateway.sessionEnded('session-1');
  await settled();
  assert.equal(open(), 0);
});

test('calls that a stateless server takes as tasks have the log level of the session', async () => {
  const bench = new GatewayBench(OFFERS);
  const required = '{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}';
  const done = '{"resultType":"complete","content":[]}';
  const levels: unknown[] = [];
  bench.upstreams.respond = ({ request: { body, method } }) => {
    if (method !== 'tools/call') return answer(result('1', done, 'stateless'));
    const level = JSON.parse(body.toString())._meta?.['io.modelcontextprotocol/logLevel'];
    levels.push(level);
    if (level === undefined) return answer(errorAnswer('1', -32021, 'tasks', required, 'stateless'));
    return answer(result('1', done, 'stateless'));
  };
  for (const params of [CALLS[1]!, '{"name":"young__run"}']) {
    ended(await bench.run('tools/call', params, { client: client('stateful', { logLevel: 'debug' }) }));
  }
  assert.deepEqual(levels, ['debug', undefined, 'debug']);
});

test('during a task, messages from the server have the sealed id, and messages to the server its own id', async () => {
  const bench = new GatewayBench(OFFERS);
  const taskId = await started(bench);
  const related = (id: string) => `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":${JSON.stringify(id)}}}}`;
  const exchange = bench.exchange('tasks/result', JSON.stringify({ taskId }));
  exchange.reply = result('5', related(taskId), 'stateful');
  let reply = '';
  bench.upstreams.respond = async (call: Call) => {
    call.exchange.emit(notification('notifications/message', related('t-1'), 'stateful'));
    reply = (await call.exchange.ask(request('elicitation/create', '5', related('t-1'), 'stateful'))).body.toString();
    return answer(result('1', related('t-1'), 'stateful'));
  };
  const outcome = await bench.gateway.run(exchange, { kind: 'aggregate', server: '', path: '/mcp' });
  assert.equal(exchange.emitted[0]!.body.toString(), related(taskId));
  assert.equal(exchange.asked[0]!.body.toString(), related(taskId));
  assert.equal(reply, related('t-1'));
  assert.deepEqual(ended(outcome), JSON.parse(related(taskId)));
  bench.gateway.notification(
    'jobs',
    'session-1',
    notification('notifications/tasks/status', '{"taskId":"t-1"}', 'stateful'),
  );
  assert.equal(bench.streams.delivered[0]!.message.body.toString(), JSON.stringify({ taskId }));
});

test('stateless task results are sealed for clients that accept them; other results are not read', async () => {
  const bench = new GatewayBench(OFFERS);
  const body = '{"resultType":"task","taskId":"t-9","status":"working"}';
  bench.upstreams.respond = () => answer(result('1', body, 'stateless'));
  const taking = client('stateless', TASKS);
  const sealed = ended(await bench.run('tools/call', '{"name":"young__run"}', { client: taking })) as {
    taskId: string;
  };
  assert.notEqual(sealed.taskId, 't-9');
  await bench.run('tasks/update', JSON.stringify({ taskId: sealed.taskId, inputResponses: {} }), { client: taking });
  assert.equal(bench.upstreams.calls.at(-1)!.request.body.toString(), '{"taskId":"t-9","inputResponses":{}}');
  const plain = await bench.run('tools/call', '{"name":"young__run"}', { era: 'stateless' });
  assert.deepEqual(ended(plain), JSON.parse(body));
});

test('proto:S4 input requests of a task of a stateless server are refused to a client that did not declare them', async () => {
  const bench = new GatewayBench(OFFERS);
  const asks =
    '"inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"x:y","message":"m"}}}';
  const task = '"taskId":"t-9","ttlMs":60000,"status"';
  bench.upstreams.respond = ({ request: { method } }) =>
    answer(
      method === 'tools/call'
        ? result('1', `{"resultType":"task",${task}:"working"}`, 'stateless')
        : result('1', `{"resultType":"complete",${task}:"input_required",${asks}}`, 'stateless'),
    );
  const of = (modes: string) => ({
    client: client('stateless', { capabilities: TASKS.capabilities.replace('{', `{"elicitation":${modes},`) }),
  });
  const { taskId } = ended(await bench.run('tools/call', '{"name":"young__run"}', of('{}'))) as { taskId: string };
  const get = async (modes: string) => ended(await bench.run('tasks/get', JSON.stringify({ taskId }), of(modes)));
  const refused = (await get('{"form":{}}')) as { code: number; data: unknown };
  assert.deepEqual([refused.code, refused.data], [-32021, { requiredCapabilities: { elicitation: { url: {} } } }]);
  assert.match(JSON.stringify(await get('{"url":{}}')), /"inputRequests":\{"a":/);
});

test('a call with "task": null gets the answer, not a task', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.upstreams.respond = () => answer(result('1', '{"resultType":"complete","content":[]}', 'stateless'));
  const outcome = ended(await bench.run('tools/call', '{"name":"young__run","task":null}')) as object;
  assert.deepEqual(['content' in outcome, 'task' in outcome], [true, false]);
});

test('a seal is bound to its context, and the same text has the same seal', () => {
  const sealer = new Sealer(Buffer.alloc(32, 1));
  const sealed = sealer.seal('a', 'text é');
  assert.equal(sealer.open('a', sealed), 'text é');
  assert.equal(sealer.seal('a', 'text é'), sealed);
  assert.equal(sealer.open('b', sealed), null);
  assert.equal(new Sealer(Buffer.alloc(32, 2)).open('a', sealed), null);
  assert.equal(sealer.open('a', ''), null);
  assert.equal(sealer.open('a', `${sealed}A`), null);
});

test('the wait for a task result that a stateful server never returns ends after a day', async () => {
  const bench = new GatewayBench(OFFERS);
  const taskId = await started(bench, 'null');
  const overdue = failure(new GatewayError('TIMEOUT', 'no answer'));
  bench.upstreams.respond = () => bench.clock.advance(3_600_000).then(() => overdue);
  const before = bench.upstreams.calls.length;
  assert.equal(code(await bench.run('tasks/result', JSON.stringify({ taskId }))), 'TIMEOUT');
  assert.equal(bench.upstreams.calls.length - before, 24);
});

test('a task whose id is longer than 1 KiB is not kept and counts as the server’s error', async () => {
  const bench = new GatewayBench(OFFERS);
  const began = async (length: number) => {
    const task = { taskId: 'x'.repeat(length), status: 'working', ttl: 60_000 };
    bench.upstreams.respond = () => answer(result('1', JSON.stringify({ task }), 'stateful'));
    return code(await bench.run('tools/call', '{"name":"jobs__run","task":{}}'));
  };
  const listed = async () => (ended(await bench.run('tasks/list', null)) as { tasks: unknown[] }).tasks.length;
  assert.equal(await began(1_025), 'UPSTREAM_PROTOCOL');
  assert.equal(await listed(), 0);
  assert.equal(await began(1_024), 'answer');
  assert.equal(await listed(), 1);
});

test('a task records whether its session ends with the process', () => {
  const bench = new GatewayBench(OFFERS);
  const table = new TaskTable({ clock: bench.clock, random: systemRandom, records: NO_RECORDS, events: UNHEARD });
  const ids = new TaskIds(new Sealer(Buffer.alloc(32, 1)), table);
  const created = createdTask(result('1', '{"task":{"taskId":"t-1","status":"working","ttl":1}}', 'stateful'))!;
  for (const passing of [true, false]) {
    const exchange = bench.exchange('tools/call', '{}', { client: client('stateful', { passing }) });
    const target = new Target(exchange.client.principal, 'jobs', 'tool', exchange.request, null);
    const call = { target, exchange, endpoint: MCP, wraps: false };
    assert.equal(newTask(call, 'stateful', created, ids).passing === true, passing);
  }
});

const CALLS = ['{"name":"jobs__run","task":{}}', '{"name":"young__run","task":{}}', '{"name":"jobs__must"}'];

test('check:C9 fault:F30 a call that a dead node has sent is only looked up, also if it may begin a task', async () => {
  const sent: string[] = [];
  const bench = new GatewayBench(OFFERS);
  const run = async (params: string, found: boolean) => {
    sent.length = 0;
    bench.upstreams.respond = ({ request: { method }, exchange }) => {
      sent.push(`${method} ${exchange.returned}`);
      if (method !== 'tools/call') return answer(result('1', '{"content":[]}', 'stateful'));
      exchange.found = found;
      if (!found) return failure(new GatewayError('UNKNOWN', 'the node is gone'));
      return answer(result('1', '{"task":{"taskId":"t-1","status":"working","ttl":1000}}', 'stateful'));
    };
    const returned: Exchange = Object.assign(bench.exchange('tools/call', params), { returned: true });
    await bench.gateway.run(returned, MCP);
    assert.equal(returned.found, found, params);
  };
  for (const params of CALLS) {
    await run(params, false);
    assert.deepEqual(sent, ['tools/call true'], params);
  }
  // The task began, and its result is fetched.
  await run(CALLS[2]!, true);
  assert.deepEqual(sent, ['tools/call true', 'tasks/result false']);
});

test('the record of a call says how it was sent, also if it may begin a task or asks for one of the other era', async () => {
  const calls = new CallLog('bench', null, Logger.silent(), 64);
  const bench = new GatewayBench(OFFERS, {}, new Metrics(), { calls });
  bench.upstreams.respond = ({ request: { method }, server, exchange }) => {
    exchange.servedBy = 'b';
    const task = '"taskId":"t-1","status":"working","ttl":60000';
    if (server === 'young') return answer(result('1', `{"resultType":"task",${task}}`, 'stateless'));
    return answer(result('1', method === 'tasks/result' ? '{"content":[]}' : `{"task":{${task}}}`, 'stateful'));
  };
  const { task } = ended(await bench.run('tools/call', CALLS[1]!)) as { task: { taskId: string } };
  await bench.run('tasks/get', JSON.stringify({ taskId: task.taskId }));
  for (const params of [CALLS[0]!, CALLS[2]!]) await bench.run('tools/call', params);
  const records = calls.last(9);
  assert.deepEqual(
    records.map(({ name, servedBy, tries, waitedMs }) => [name, servedBy, tries, waitedMs]),
    [
      ['run', 'b', 1, 0],
      [null, 'b', 1, 0],
      ['run', 'b', 1, 0],
      ['must', 'b', 1, 0],
    ],
  );
});

test('a request about a task is not sent for a client that has cancelled', async () => {
  const bench = new GatewayBench(OFFERS);
  const calls = new TaskCalls(dispatchTo(bench.upstreams));
  const exchange = bench.exchange('tasks/get', '{"taskId":"t-1"}');
  exchange.cancel('enough');
  const record = { ...taskOf('t-1', { server: 'jobs' }), key: 'k', startedAt: 0, expiresAt: 1 };
  assert.equal(code(await calls.own(record, exchange.client.principal, 'tasks/get', exchange)), 'CANCELLED');
  assert.equal(bench.upstreams.calls.length, 0);
});
