import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { type Call, client, dispatchTo, ended, GatewayBench, NO_RECORDS } from '../../../test/support/gateway-bench.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { errorAnswer, result } from '../../protocol/compose.ts';
import { TaskCalls } from './task-calls.ts';

import { type TaskEvents, TaskTable } from './task-table.ts';
import { TaskWaits } from './task-waits.ts';

const OFFERS = {
  young: {
    era: 'stateless',
    tools: [tool('run')],
    capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
  } as const,
};
const QUESTION = { method: 'elicitation/create', params: { message: 'who?', mode: 'form', requestedSchema: {} } };

/** A stateless server with scripted answers: each answer of `tasks/get` in turn, the last one repeatedly. */
class Young {
  readonly bench = new GatewayBench(OFFERS);
  readonly polledAt: number[] = [];
  readonly sent: string[] = [];
  polls: (object | Outcome)[] = [];

  constructor() {
    this.bench.upstreams.respond = (call) => this.#respond(call);
  }

  async start(more: object = {}): Promise<string> {
    const outcome = await this.bench.run('tools/call', '{"name":"young__run","task":{}}', {
      client: client('stateful', { capabilities: '{"elicitation":{}}', ...more }),
    });
    return (ended(outcome) as { task: { taskId: string } }).task.taskId;
  }

  wait(taskId: string, more: object = {}) {
    const profile = client('stateful', { capabilities: '{"elicitation":{}}', ...more });
    const exchange = this.bench.exchange('tasks/result', JSON.stringify({ taskId }), { client: profile });
    return { exchange, outcome: this.bench.gateway.run(exchange, { kind: 'aggregate', server: '', path: '/mcp' }) };
  }

  /** Work in progress first continues until it waits. */
  async advance(ms: number): Promise<void> {
    await settled();
    await this.bench.clock.advance(ms);
  }

  #respond({ request }: Call): Outcome {
    const body = request.body.toString();
    if (request.method === 'tools/call') return reported({ resultType: 'task', status: 'working' });
    if (request.method === 'tasks/get') {
      this.polledAt.push(this.bench.clock.now());
      const next = this.polls.length > 1 ? this.polls.shift()! : this.polls[0]!;
      return 'kind' in next ? (next as Outcome) : reported(next);
    }
    if (request.method.startsWith('tasks/')) this.sent.push(`${request.method} ${body}`);
    return answer(result('1', '{"resultType":"complete"}', 'stateless'));
  }
}

function reported(task: object): Outcome {
  const full = {
    resultType: 'complete',
    taskId: 't-1',
    status: 'working',
    ttlMs: null,
    pollIntervalMs: 1_000,
    ...task,
  };
  return answer(result('1', JSON.stringify(full), 'stateless'));
}

const DONE = { status: 'completed', result: { content: [] } };

test('tasks/result polls at the requested interval, slower while nothing changes, until the task has ended', async () => {
  const young = new Young();
  const taskId = await young.start();
  young.polls = [{}, {}, {}, { pollIntervalMs: 100 }, DONE];
  const { outcome } = young.wait(taskId);
  await young.advance(20_000);
  assert.deepEqual((ended(await outcome) as { content: unknown }).content, []);
  const pauses = young.polledAt.slice(1).map((at, i) => at - young.polledAt[i]!);
  assert.equal(pauses.length, 4);
  for (const [i, least] of [1_000, 1_500, 2_250].entries()) {
    assert.ok(pauses[i]! >= least && pauses[i]! <= least * 1.2, `${pauses}`);
  }
  const more = young.polledAt.length;
  await young.bench.run('tasks/result', JSON.stringify({ taskId }));
  assert.equal(young.polledAt.length, more, 'a task that has ended is not polled again');
});

test('an unreachable server is polled again; if it stays unreachable, the waiting client gets NOT_SENT', async () => {
  const young = new Young();
  const taskId = await young.start();
  const away = failure(new GatewayError('NOT_SENT', 'it is down'));
  young.polls = [away, away, DONE];
  const first = young.wait(taskId);
  await young.advance(20_000);
  assert.equal((await first.outcome).kind, 'answer');
  const other = await young.start();
  young.polls = [away];
  const second = young.wait(other);
  await young.advance(200_000);
  const given = await second.outcome;
  assert.equal(given.kind === 'failure' && given.error.code, 'NOT_SENT');
});

test('an input request is sent once, with its related task, and the server gets the answer without that', async () => {
  const young = new Young();
  const taskId = await young.start();
  const asking = { status: 'input_required', inputRequests: { 'a"b': QUESTION } };
  young.polls = [asking, asking, DONE];
  const { exchange, outcome } = young.wait(taskId);
  const related = `{"io.modelcontextprotocol/related-task":{"taskId":${JSON.stringify(taskId)}}}`;
  exchange.reply = result('1', `{"action":"accept","content":{"n":1.0},"_meta":${related}}`, 'stateful');
  await young.advance(20_000);
  await outcome;
  assert.equal(exchange.asked.length, 1);
  assert.equal(JSON.stringify(JSON.parse(exchange.asked[0]!.body.toString())._meta), related);
  assert.equal(young.sent.length, 1);
  assert.match(
    young.sent[0]!,
    /^tasks\/update \{.*"taskId":"t-1","inputResponses":\{"a\\"b":\{"action":"accept","content":\{"n":1.0\}\}\}/,
  );
});

test('proto:S4 input requests that the client did not declare are not sent, and the wait ends in -32021', async () => {
  const young = new Young();
  const taskId = await young.start();
  young.polls = [{ status: 'input_required', inputRequests: { k: { method: 'roots/list' }, l: QUESTION } }];
  const { exchange, outcome } = young.wait(taskId);
  const error = ended(await outcome) as { code: number; data: object };
  assert.deepEqual([error.code, error.data], [-32021, { requiredCapabilities: { roots: {} } }]);
  assert.deepEqual([exchange.asked.length, young.sent], [0, []]);
});

test('a waiting client may give up; the task goes on, and the next client gets the open input requests', async () => {
  const young = new Young();
  const taskId = await young.start();
  young.polls = [{ status: 'input_required', inputRequests: { k: QUESTION } }];
  const first = young.wait(taskId);
  assert.equal((await first.outcome).kind, 'failure');
  assert.equal(first.exchange.asked.length, 1);
  const second = young.wait(taskId);
  second.exchange.reply = result('1', '{"action":"decline"}', 'stateful');
  await settled();
  assert.equal(second.exchange.asked.length, 1);
  second.exchange.cancel('enough');
  const given = await second.outcome;
  assert.equal(given.kind === 'failure' && given.error.code, 'CANCELLED');
  assert.ok(!young.sent.some((line) => line.startsWith('tasks/cancel')));
});

test('a task that is cancelled while its input request is open ends the wait with CANCELLED', async () => {
  const young = new Young();
  const taskId = await young.start();
  young.polls = [{ status: 'input_required', inputRequests: { k: QUESTION } }];
  const { exchange, outcome } = young.wait(taskId);
  exchange.ask = () => new Promise(() => {});
  await settled();
  await young.bench.run('tasks/cancel', JSON.stringify({ taskId }));
  const given = await outcome;
  assert.equal(given.kind === 'failure' && given.error.code, 'CANCELLED');
});

test('an elicitation that the client answers with an error counts as cancelled; any other error ends the wait', async () => {
  const young = new Young();
  const taskId = await young.start();
  young.polls = [{ status: 'input_required', inputRequests: { k: QUESTION } }, DONE];
  const { exchange, outcome } = young.wait(taskId);
  exchange.reply = errorAnswer('1', -1, 'no', null, 'stateful');
  await young.advance(5_000);
  await outcome;
  assert.match(young.sent[0]!, /"inputResponses":\{"k":\{"action":"cancel"\}\}/);
  const other = await young.start({ capabilities: '{"sampling":{}}' });
  young.polls = [{ status: 'input_required', inputRequests: { k: { method: 'sampling/createMessage', params: {} } } }];
  const second = young.wait(other, { capabilities: '{"sampling":{}}' });
  second.exchange.reply = errorAnswer('1', -1, 'the user said no', null, 'stateful');
  assert.deepEqual(ended(await second.outcome), { code: -1, message: 'the user said no' });
});

test('a task that ended without an answer is an error of the server', async () => {
  const young = new Young();
  const taskId = await young.start();
  young.polls = [{ status: 'completed' }];
  const given = await young.wait(taskId).outcome;
  assert.equal(given.kind === 'failure' && given.error.code, 'UPSTREAM_PROTOCOL');
});

for (const pollIntervalMs of [60_000, 1e9]) {
  test(`a task without an end is waited for a day at most, and its client may ask again (${pollIntervalMs} ms)`, async () => {
    const young = new Young();
    const taskId = await young.start();
    young.polls = [{ pollIntervalMs }];
    const { outcome } = young.wait(taskId);
    let given: Outcome | null = null;
    void outcome.then((is) => {
      given = is;
    });
    for (let hour = 0; hour < 25; hour++) await young.advance(3_600_000);
    assert.ok(given !== null);
    assert.equal(code(given), 'TIMEOUT');
    const polled = young.polledAt.length;
    await young.advance(600_000);
    assert.equal(young.polledAt.length, polled);
    young.polls = [DONE];
    assert.equal(code(await young.wait(taskId).outcome), 'answer');
  });
}

test('an unanswered input request ends the wait when the client gives up, or within a day', async () => {
  for (const cancels of [true, false]) {
    const young = new Young();
    const taskId = await young.start();
    young.polls = [{ status: 'input_required', inputRequests: { k: QUESTION } }];
    const { exchange, outcome } = young.wait(taskId);
    exchange.ask = () => new Promise(() => {});
    await settled();
    if (cancels) exchange.cancel('gone');
    else for (let hour = 0; hour < 25; hour++) await young.advance(3_600_000);
    assert.equal(code(await outcome), cancels ? 'CANCELLED' : 'TIMEOUT');
  }
});

test('too many input requests of a server, or one with too long a key, end the wait with an error', async () => {
  const keys = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${from + i}`, QUESTION]));
  const long = { ['k'.repeat(2_000)]: QUESTION };
  for (const [rounds, most] of [
    [Array.from({ length: 30 }, (_, i) => keys(i * 50, 50)), 1_000],
    [[long], 0],
  ] as const) {
    const young = new Young();
    const taskId = await young.start();
    young.polls = rounds.map((inputRequests) => ({ status: 'input_required', inputRequests }));
    const { exchange, outcome } = young.wait(taskId);
    exchange.reply = result('1', '{"action":"decline"}', 'stateful');
    await young.advance(120_000);
    assert.equal(code(await outcome), 'UPSTREAM_PROTOCOL');
    assert.equal(exchange.asked.length, most);
  }
});

test('input requests of a task are dropped when it expires, with or without a waiting client', async () => {
  for (const waits of [false, true]) {
    const bench = new GatewayBench(OFFERS);
    const { clock, upstreams } = bench;
    const calls = new TaskCalls(dispatchTo(upstreams));
    const events: TaskEvents = { started: () => {}, changed: () => {}, ended: (record) => taskWaits.forget(record) };
    const table = new TaskTable({ clock, random: systemRandom, records: NO_RECORDS, events });
    const taskWaits = new TaskWaits({ clock, random: systemRandom, table, calls });
    const profile = client('stateful', { capabilities: '{"elicitation":{}}' });
    const { principal, sessionId, logLevel: _, ...starter } = profile;
    const record = table.add({
      server: 'young',
      taskId: 't-1',
      principal: principal.id,
      sessionId,
      client: starter,
      era: 'stateless',
      wraps: false,
      status: 'working',
      description: Buffer.from('{}'),
      ttlMs: 5_000,
      pollIntervalMs: 1_000,
      answer: null,
    });
    let asks = 0;
    upstreams.respond = ({ request }) =>
      request.method === 'tasks/get'
        ? reported({ ttlMs: 5_000, status: 'input_required', inputRequests: { [`k${++asks}`]: QUESTION } })
        : answer(result('1', '{"resultType":"complete"}', 'stateless'));
    const exchange = bench.exchange('tasks/result', '{"taskId":"t-1"}', { client: profile });
    exchange.reply = result('1', '{"action":"decline"}', 'stateful');
    const outcome = taskWaits.wait({
      record,
      exchange,
      related: 't-1',
      until: clock.now() + (waits ? 200_000 : 2_000),
    });
    await settled();
    await clock.advance(4_000);
    assert.equal(taskWaits.size, 1);
    await clock.advance(300_000);
    await outcome;
    assert.equal(taskWaits.size, 0);
    table.close();
  }
});

function code(outcome: Outcome): string {
  return outcome.kind === 'failure' ? outcome.error.code : 'answer';
}
