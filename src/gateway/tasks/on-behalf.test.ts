import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Call, client, ended, endpointOf, GatewayBench } from '../../../test/support/gateway-bench.ts';
import { type Advertisement, tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { errorAnswer, result } from '../../protocol/compose.ts';

const OLD: Advertisement = {
  tools: [tool('run', ',"execution":{"taskSupport":"required"}')],
  capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
};
const YOUNG: Advertisement = {
  era: 'stateless',
  tools: [tool('run')],
  capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
};

/** The outcome of a call that becomes a task at this server, if each request about the task ends with `about`. */
async function ending(
  advertisement: Advertisement,
  about: (call: Call) => Outcome,
): Promise<{ outcome: Outcome; methods: string[] }> {
  const bench = new GatewayBench({ s: advertisement });
  const methods: string[] = [];
  bench.upstreams.respond = (call) => {
    const { method, era } = call.request;
    methods.push(method);
    if (method !== 'tools/call') return about(call);
    if (era === 'stateless' || methods.length > 1 || advertisement !== YOUNG) return begun(advertisement);
    return answer(errorAnswer('1', -32021, 'tasks', REQUIRED, 'stateless'));
  };
  const run = bench.run('tools/call', '{"name":"run"}', { client: client('stateful'), endpoint: endpointOf('s') });
  let given: Outcome | null = null;
  void run.then((outcome) => {
    given = outcome;
  });
  for (let i = 0; given === null && i < 100; i++) await bench.clock.advance(10_000);
  return { outcome: await run, methods };
}

const REQUIRED = '{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}';
const TASK = { taskId: 't-1', status: 'working', ttlMs: null, ttl: null };

function begun(advertisement: Advertisement): Outcome {
  return advertisement === YOUNG
    ? answer(result('1', JSON.stringify({ ...TASK, resultType: 'task' }), 'stateless'))
    : answer(result('1', JSON.stringify({ task: TASK }), 'stateful'));
}

for (const [name, advertisement] of [
  ['stateful', OLD],
  ['stateless', YOUNG],
] as const) {
  test(`a call that began a task at a ${name} server counts as sent, whatever happens to requests about the task`, async () => {
    const away = failure(new GatewayError('NOT_SENT', 'it is down', { server: 's' }));
    const { outcome, methods } = await ending(advertisement, () => away);
    assert.ok(outcome.kind === 'failure');
    const { code, data } = outcome.error;
    assert.deepEqual([code, data.outcome, data.sent, data.retryable], ['UNKNOWN', 'UNKNOWN', true, false]);
    assert.equal(methods.at(-1), 'tasks/cancel', 'no caller waits for it any more');
  });

  test(`a ${name} server that was restarted meanwhile makes the call UNKNOWN`, async () => {
    const unknown = answer(
      errorAnswer('1', -32602, 'no such task', null, advertisement === OLD ? 'stateful' : 'stateless'),
    );
    const { outcome } = await ending(advertisement, () => unknown);
    assert.ok(outcome.kind === 'failure');
    const { code, data } = outcome.error;
    assert.deepEqual([code, data.outcome, data.server], ['UNKNOWN', 'UNKNOWN', 's']);
  });

  test(`a task of a ${name} server that ended with invalid params ends its call with that error`, async () => {
    const era = advertisement === OLD ? 'stateful' : 'stateless';
    const error = { code: -32602, message: 'bad' };
    const { outcome } = await ending(advertisement, ({ request }) =>
      request.method === 'tasks/result'
        ? answer(errorAnswer('1', error.code, error.message, null, era))
        : answer(result('1', JSON.stringify({ ...TASK, status: 'failed', error }), era)),
    );
    assert.deepEqual(ended(outcome), error);
  });
}
