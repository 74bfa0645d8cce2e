import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  agent,
  type Call,
  client,
  dispatchTo,
  ended,
  GatewayBench,
  MCP,
  NO_RECORDS,
  type RunOptions,
} from '../../../test/support/gateway-bench.ts';
import { UNHEARD } from '../../../test/support/new-task.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import type { Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { notification, request, result } from '../../protocol/compose.ts';
import { ResultStreams } from './result-streams.ts';
import { TaskTable } from './task-table.ts';

const OFFERS = {
  old: {
    tools: [tool('run', ',"execution":{"taskSupport":"required"}')],
    capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
  },
};
const CAPABILITIES = '{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}';
const ELICIT =
  '{"message":"who?","mode":"form","requestedSchema":{},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}';

type Json = { readonly [key: string]: Json } & { readonly status: string };

/** A stateful server with one task, seen by a stateless client. */
class Old {
  readonly bench = new GatewayBench(OFFERS);
  readonly options: RunOptions;
  status = 'working';
  /** The open `tasks/result` of the gateway. */
  stream: Call | null = null;
  opened = 0;
  end: (outcome: Outcome) => void = () => {};
  taskId = '';

  constructor(capabilities: string) {
    this.options = { client: client('stateless', { capabilities }) };
    this.bench.upstreams.respond = (call) => this.#respond(call);
  }

  static async started(capabilities = CAPABILITIES): Promise<Old> {
    const old = new Old(capabilities);
    old.taskId = (ended(await old.run('tools/call', { name: 'old__run' })) as Json)['taskId'] as unknown as string;
    return old;
  }

  run(method: string, params: object = { taskId: this.taskId }): Promise<Outcome> {
    return this.bench.run(method, JSON.stringify(params), this.options);
  }

  async get(): Promise<Json> {
    return ended(await this.run('tasks/get')) as Json;
  }

  #respond(call: Call): Outcome | Promise<Outcome> {
    const { method, body } = call.request;
    const task = { taskId: 't-1', status: this.status, ttl: 60_000 };
    if (method === 'tools/call') {
      assert.equal(JSON.parse(body.toString()).task !== undefined, true);
      return answer(result('1', JSON.stringify({ task }), 'stateful'));
    }
    if (method === 'tasks/get') return answer(result('1', JSON.stringify(task), 'stateful'));
    assert.equal(method, 'tasks/result');
    this.stream = call;
    this.opened++;
    return new Promise((resolve) => {
      this.end = resolve;
    });
  }
}

test('input requests of a stateful server are in tasks/get, and tasks/update answers each', async () => {
  const old = await Old.started();
  assert.equal((await old.get()).status, 'working');
  assert.equal(old.opened, 0, 'no stream before it is needed');
  old.status = 'input_required';
  const got = old.get();
  await settled();
  const answers = [1, 2].map((id) =>
    old.stream!.exchange.ask(request('elicitation/create', `${id}`, ELICIT, 'stateful')),
  );
  const long = JSON.stringify({ message: 'x'.repeat(17 << 20) });
  const beyond = old.stream!.exchange.ask(request('elicitation/create', '3', long, 'stateful'));
  await assert.rejects(beyond, /too many requests wait for an answer of the client/);
  const shown = await got;
  assert.equal(shown.status, 'input_required');
  const [first] = Object.keys(shown['inputRequests']!);
  assert.deepEqual(Object.values((await old.get())['inputRequests']!), [
    { method: 'elicitation/create', params: { message: 'who?', mode: 'form', requestedSchema: {} } },
    { method: 'elicitation/create', params: { message: 'who?', mode: 'form', requestedSchema: {} } },
  ]);
  const keys = Object.keys((await old.get())['inputRequests']!);
  assert.equal(keys[0], first);
  const some = { taskId: old.taskId, inputResponses: { [keys[1]!]: { action: 'accept', n: 1 }, stranger: {} } };
  assert.deepEqual(ended(await old.run('tasks/update', some)), { resultType: 'complete' });
  const given = JSON.parse((await answers[1]!).body.toString());
  assert.deepEqual(given, {
    action: 'accept',
    n: 1,
    _meta: { 'io.modelcontextprotocol/related-task': { taskId: 't-1' } },
  });
  assert.deepEqual(Object.keys((await old.get())['inputRequests']!), [first]);
  assert.equal(old.opened, 1);
});

test('a task that waits for input has the status working as long as it has no input request to show', async () => {
  const old = await Old.started();
  old.status = 'input_required';
  const got = old.get();
  await settled();
  await old.bench.clock.advance(2_000);
  assert.equal((await got).status, 'working');
});

test('an input request without params is shown with empty ones, which the Go SDK requires', async () => {
  const old = await Old.started(CAPABILITIES.replace('"elicitation":{}', '"roots":{}'));
  old.status = 'input_required';
  const got = old.get();
  await settled();
  const asked = old.stream!.exchange.ask(request('roots/list', '1', null, 'stateful'));
  assert.deepEqual(Object.values((await got)['inputRequests']!), [{ method: 'roots/list', params: {} }]);
  old.end(answer(result('1', '{"content":[]}', 'stateful')));
  await assert.rejects(asked);
});

test('proto:S4 no client of the caller is shown an input request that it did not declare, by tasks/get or by its listen', async () => {
  const pages = CAPABILITIES.replace('{}', '{"url":{}}');
  const old = await Old.started(pages);
  const listens = [CAPABILITIES, pages].map((capabilities) => {
    const params = JSON.stringify({ notifications: { taskIds: [old.taskId] } });
    const listen = { client: client('stateless', { capabilities }) };
    const exchange = old.bench.exchange('subscriptions/listen', params, listen);
    void old.bench.gateway.run(exchange, MCP);
    return exchange;
  });
  await settled();
  old.status = 'input_required';
  const got = old.get();
  await settled();
  const page = ELICIT.replace('"form"', '"\\u0075rl"');
  old.stream!.exchange.ask(request('elicitation/create', '1', page, 'stateful')).catch(() => {});
  assert.equal(Object.keys((await got)['inputRequests']!).length, 1);
  const forms = { client: client('stateless', { capabilities: CAPABILITIES }) };
  const refused = ended(await old.bench.run('tasks/get', JSON.stringify({ taskId: old.taskId }), forms)) as Json;
  assert.deepEqual(refused['data'], { requiredCapabilities: { elicitation: { url: {} } } });
  await settled();
  assert.deepEqual(
    listens.map(({ emitted }) => {
      const task = JSON.parse(emitted.findLast(({ method }) => method === 'notifications/tasks')!.body.toString());
      return [task.status, Object.keys(task.inputRequests ?? {}).length];
    }),
    [
      ['input_required', 0],
      ['input_required', 1],
    ],
  );
});

test('the answer is fetched once, kept, and shown with the task', async () => {
  const old = await Old.started();
  old.status = 'completed';
  const got = old.get();
  await settled();
  old.end(answer(result('1', '{"content":[{"n":1.0}],"isError":true}', 'stateful')));
  const shown = await got;
  assert.deepEqual([shown.status, shown['result']], ['completed', { content: [{ n: 1 }], isError: true }]);
  const before = old.bench.upstreams.calls.length;
  assert.equal((await old.get()).status, 'completed');
  assert.equal(old.bench.upstreams.calls.length, before);
});

test('a cancelled input request is no longer shown, and one that the client did not declare never is', async () => {
  const old = await Old.started();
  old.status = 'input_required';
  const got = old.get();
  await settled();
  const { exchange } = old.stream!;
  await assert.rejects(exchange.ask(request('sampling/createMessage', '1', '{}', 'stateful')));
  await assert.rejects(exchange.ask(request('tasks/get', '2', '{"taskId":"x"}', 'stateful')));
  const asked = exchange.ask(request('elicitation/create', '"7"', ELICIT, 'stateful'));
  assert.equal((await got).status, 'input_required');
  exchange.emit(notification('notifications/cancelled', '{"requestId":"7"}', 'stateful'));
  await assert.rejects(asked);
  const last = old.get();
  await settled();
  await old.bench.clock.advance(2_000);
  assert.equal((await last)['inputRequests'], undefined);
});

test('an input request outside the stream that names the task belongs to the task', async () => {
  const old = await Old.started();
  const asked = old.bench.gateway.request('old', null, request('elicitation/create', '1', ELICIT, 'stateful'));
  await settled();
  const shown = await old.get();
  const [key] = Object.keys(shown['inputRequests']!);
  await old.run('tasks/update', { taskId: old.taskId, inputResponses: { [key!]: { action: 'decline' } } });
  assert.match((await asked).body.toString(), /"action":"decline"/);
  const strange = ELICIT.replace('t-1', 't-2');
  const refused: Message = await old.bench.gateway.request(
    'old',
    null,
    request('elicitation/create', '1', strange, 'stateful'),
  );
  assert.equal(refused.kind, 'error');
});

test('an input request on one caller’s connection does not belong to another’s task, whatever id it names', async () => {
  const old = await Old.started();
  old.bench.upstreams.sessionKey = (_server, { principal }) => principal.id;
  const asking = request('elicitation/create', '1', ELICIT, 'stateful');
  const refused = await old.bench.gateway.request('old', null, asking, agent('bob').id);
  assert.equal(refused.kind, 'error');
  assert.equal(old.opened, 0);
  void old.bench.gateway.request('old', null, asking, client('stateless').principal.id);
  await settled();
  assert.equal(old.opened, 1);
});

test('a stream that broke is opened again; its input requests come again under other keys', async () => {
  const old = await Old.started();
  old.status = 'input_required';
  const got = old.get();
  await settled();
  const lost = old.stream!.exchange.ask(request('elicitation/create', '1', ELICIT, 'stateful'));
  const [before] = Object.keys((await got)['inputRequests']!);
  old.end(failure(new GatewayError('UNKNOWN', 'gone')));
  await assert.rejects(lost);
  const again = old.get();
  await settled();
  assert.equal(old.opened, 2);
  void old.stream!.exchange.ask(request('elicitation/create', '1', ELICIT, 'stateful')).catch(() => {});
  const [after] = Object.keys((await again)['inputRequests']!);
  assert.notEqual(before, after);
});

test('tasks/list is paged, and a cursor belongs to its caller', async () => {
  const bench = new GatewayBench(OFFERS);
  let count = 0;
  bench.upstreams.respond = () =>
    answer(result('1', `{"task":{"taskId":"t-${++count}","status":"working","ttl":60000}}`, 'stateful'));
  for (let i = 0; i < 120; i++) {
    await bench.run('tools/call', '{"name":"old__run","task":{}}');
    await bench.clock.advance(1);
  }
  const sizes: number[] = [];
  const seen = new Set<string>();
  let first: string | undefined;
  for (let cursor: string | undefined; ; ) {
    const page = ended(await bench.run('tasks/list', cursor === undefined ? null : JSON.stringify({ cursor }))) as {
      tasks: { taskId: string }[];
      nextCursor?: string;
    };
    sizes.push(page.tasks.length);
    for (const { taskId } of page.tasks) seen.add(taskId);
    cursor = page.nextCursor;
    first ??= cursor;
    if (cursor === undefined) break;
  }
  assert.deepEqual([sizes, seen.size], [[50, 50, 20], 120]);
  const other = client('stateful', { principal: agent('eve', 'old') });
  for (const options of [{ client: other }, {}]) {
    const cursor = 'client' in options ? first! : `${first!.slice(0, -2)}AA`;
    const outcome = await bench.run('tasks/list', JSON.stringify({ cursor }), options);
    assert.equal(outcome.kind === 'failure' && outcome.error.code, 'INVALID_PARAMS');
  }
});

test('streams are bounded per principal, so that no principal takes all', async () => {
  const { clock, upstreams } = new GatewayBench(OFFERS);
  const finish: ((outcome: Outcome) => void)[] = [];
  upstreams.respond = () => new Promise((resolve) => finish.push(resolve));
  const table = new TaskTable({ clock, random: systemRandom, records: NO_RECORDS, events: UNHEARD });
  const streams = new ResultStreams({ dispatch: dispatchTo(upstreams), clock, random: systemRandom, table });
  const opened = (principal: Principal, count: number) => {
    const { revision, capabilities, fingerprint, info, handle } = client('stateless');
    const tasks = Array.from({ length: count }, () =>
      table.add({
        server: 'old',
        taskId: 't',
        principal: principal.id,
        sessionId: null,
        client: { revision, capabilities, fingerprint, info, handle },
        era: 'stateful',
        wraps: false,
        status: 'input_required',
        description: Buffer.from('{}'),
        ttlMs: 60_000,
        pollIntervalMs: null,
        answer: null,
      }),
    );
    return tasks.filter((record) => streams.open(record, principal) !== null).length;
  };
  assert.equal(opened(agent('ada', 'old'), 260), 250);
  assert.equal(opened(agent('bob', 'old'), 1), 1);
  finish[0]!(failure(new GatewayError('UNKNOWN', 'gone')));
  await settled();
  assert.equal(opened(agent('ada', 'old'), 2), 1, 'one that has ended makes room');
  table.close();
});
