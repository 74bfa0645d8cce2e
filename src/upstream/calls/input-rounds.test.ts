import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  ScriptedServer,
  type Seen,
  SILENCE,
  statefulServer,
  statelessServer,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  type TestExchange,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import { errorAnswer, result } from '../../protocol/compose.ts';

const EVERYTHING = '{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}';
const FORM = { method: 'elicitation/create', params: { message: 'who?', requestedSchema: { type: 'object' } } };
const PAGE = { method: 'elicitation/create', params: { mode: 'url', url: 'https://x.example/a', message: 'go' } };
const SAMPLE = { method: 'sampling/createMessage', params: { messages: [], maxTokens: 5 } };
const ROOTS = { method: 'roots/list' };

interface Asking {
  readonly bench: UpstreamBench;
  readonly script: ScriptedServer;
  readonly exchange: TestExchange;
  readonly outcome: Promise<Outcome>;
  calls(): Seen[];
}

/** One call of a stateful client to a stateless server that answers with these results, one after the other. */
async function asking(
  results: readonly unknown[],
  options: {
    readonly capabilities?: string;
    readonly params?: string;
    readonly answers?: boolean;
    readonly logLevel?: string;
  } = {},
): Promise<Asking> {
  const bench = new UpstreamBench();
  let turn = 0;
  const script = new ScriptedServer({
    ...statelessServer(),
    'tools/call': (_params, link, id) => {
      const answer = results[Math.min(turn++, results.length - 1)];
      if (typeof answer !== 'string') return answer;
      link.deliver(answer.replace('"ID"', String(id)), link.streamPerRequest ? id : 0);
      return SILENCE;
    },
  });
  await bench.run([httpServerOf('one'), script]);
  const exchange = toolCall(
    clientOf('s1', options.capabilities ?? EVERYTHING, { logLevel: options.logLevel ?? null }),
    options.params,
  );
  if (options.answers !== false) exchange.answer = async (asked) => replyTo(asked);
  const outcome = bench.call('one', exchange);
  await settled();
  return { bench, script, exchange, outcome, calls: () => sent(script).seen };
}

/** The calls as they arrived, on all links. */
function sent(script: ScriptedServer): { readonly seen: Seen[]; readonly lines: string[] } {
  const seen = script.links.flatMap((link) => link.seen);
  const lines = script.links.flatMap((link) => link.lines).filter((_, i) => seen[i]!.method === 'tools/call');
  return { seen: seen.filter((message) => message.method === 'tools/call'), lines };
}

function replyTo(asked: Message): Message {
  return result(asked.id, `{"to":${JSON.stringify(asked.method)},"n":1.0}`, 'stateful');
}

const DONE = { resultType: 'complete', content: [] };

describe('proto:S4 check:B8 input requests of a stateless server to a stateful client', () => {
  test('check:B13 all requests of a round are sent at once, in the client’s era, and get their answers', async () => {
    const first = { resultType: 'input_required', inputRequests: { f: FORM, 'k\u00e9y': SAMPLE, r: ROOTS, u: PAGE } };
    const { exchange, outcome, calls, script } = await asking([first, DONE]);
    answerText(await outcome);
    assert.deepEqual(
      exchange.asked.map((asked) => [asked.era, asked.method]),
      [FORM, SAMPLE, ROOTS, PAGE].map(({ method }) => ['stateful', method]),
    );
    assert.equal(new Set(exchange.asked.map((asked) => asked.id)).size, 4);
    const params = exchange.asked.map((asked) => (asked.bodyStart < 0 ? null : JSON.parse(asked.body.toString())));
    assert.deepEqual(params.slice(0, 3), [FORM.params, SAMPLE.params, null], 'only a page gets an id');
    assert.match(params[3].elicitationId, /^[0-9a-f]{32}$/);
    const [begun, retried] = calls();
    assert.equal(begun!.params!['inputResponses'], undefined);
    assert.notEqual(retried!.id, begun!.id);
    assert.deepEqual(Object.keys(retried!.params!['inputResponses'] as object), ['f', 'kéy', 'r', 'u']);
    assert.ok(sent(script).lines.at(-1)!.includes('"f":{"to":"elicitation/create","n":1.0}'), 'answers pass as bytes');
    assert.equal('requestState' in retried!.params!, false, 'no state was given, so none goes back');
    assert.deepEqual(retried!.params!['arguments'], begun!.params!['arguments']);
  });

  test('proto:S3 the state returns byte for byte, and only the latest one', async () => {
    const state = '"a\\u002fb\\/\\ud83d\\ude00 12345678901234567890"';
    const asks = (key: string, requestState: string) =>
      `{"jsonrpc":"2.0","id":"ID","result":{"resultType":"input_required","inputRequests":{"${key}":{"method":"roots/list"}},"requestState":${requestState}}}`;
    const { outcome, script, calls } = await asking([asks('one', state), asks('two', '"second"'), DONE], {
      params: '{"name":"echo","arguments":{"n":12345678901234567890,"z":-0},"_meta":{"progressToken":"p"}}',
    });
    answerText(await outcome);
    const { lines } = sent(script);
    assert.ok(lines[1]!.includes(`"requestState":${state}`), lines[1]);
    assert.deepEqual(Object.keys(calls()[2]!.params!['inputResponses'] as object), ['two']);
    assert.equal(calls()[2]!.params!['requestState'], 'second');
    for (const line of lines) assert.ok(line.includes('"arguments":{"n":12345678901234567890,"z":-0}'), line);
    const tokens = calls().map((call) => call.params!._meta!['progressToken']);
    assert.deepEqual(
      tokens,
      calls().map((call) => call.id),
      'each round has a token of ours',
    );
  });

  test('the log level of the session is in every round', async () => {
    const first = { resultType: 'input_required', inputRequests: { f: FORM } };
    const { outcome, calls } = await asking([first, DONE], { logLevel: 'debug' });
    answerText(await outcome);
    const levels = calls().map(({ params }) => params!._meta!['io.modelcontextprotocol/logLevel']);
    assert.deepEqual(levels, ['debug', 'debug']);
  });

  test('values of the client in requestState and inputResponses never reach the server', async () => {
    const params = '{"name":"echo","requestState":"stolen","inputResponses":{"f":{}}}';
    const { calls, outcome } = await asking([DONE], { params });
    answerText(await outcome);
    assert.deepEqual(Object.keys(calls()[0]!.params!).sort(), ['_meta', 'name']);
  });

  test('a state without input requests is sent again after a pause, within the deadline of the call', async () => {
    const { bench, outcome, calls, exchange } = await asking([
      { resultType: 'input_required', requestState: 's' },
      DONE,
    ]);
    await bench.clock.advance(249);
    assert.equal(calls().length, 1);
    await bench.clock.advance(1);
    assert.equal(calls()[1]!.params!['requestState'], 's');
    assert.equal('inputResponses' in calls()[1]!.params!, false);
    answerText(await outcome);
    assert.equal(exchange.asked.length, 0);
  });

  test('after eight rounds the call is UNKNOWN', async () => {
    const { bench, outcome, calls } = await asking([{ resultType: 'input_required', requestState: 's' }]);
    await bench.clock.advance(10_000);
    const error = failureOf(await outcome);
    assert.equal(error.code, 'UPSTREAM_PROTOCOL');
    assert.equal(error.outcome, 'UNKNOWN');
    assert.match(error.message, /still needs input after 8 rounds/);
    assert.equal(calls().length, 9);
  });

  for (const [what, capabilities, asked, missing] of [
    ['nothing', '{}', SAMPLE, { sampling: {} }],
    ['forms only', '{"elicitation":{}}', PAGE, { elicitation: { url: {} } }],
    ['pages only', '{"elicitation":{"url":{}}}', FORM, { elicitation: { form: {} } }],
    ['sampling without tools', '{"sampling":{}}', { ...SAMPLE, params: { tools: [] } }, { sampling: { tools: {} } }],
  ] as const) {
    test(`proto:S4 a client that declared ${what} gets no input request of the round`, async () => {
      const round = { resultType: 'input_required', inputRequests: { ok: asked === PAGE ? FORM : asked, no: asked } };
      const { outcome, exchange, calls } = await asking([round], { capabilities });
      const { error } = JSON.parse(answerText(await outcome)) as {
        error: { code: number; message: string; data: unknown };
      };
      assert.equal(error.code, -32021);
      assert.ok(error.message.includes(asked.method), error.message);
      assert.deepEqual(error.data, { requiredCapabilities: missing });
      assert.equal(exchange.asked.length, 0);
      assert.equal(calls().length, 1);
    });
  }

  test('an error of the client ends the call with that error, although another input request is open', async () => {
    const round = { resultType: 'input_required', inputRequests: { a: ROOTS, b: SAMPLE } };
    const { outcome, bench, calls } = await asking([round], { answers: false });
    await outcome;
    const again = toolCall(clientOf('s1', EVERYTHING));
    again.answer = (asked) =>
      asked.method === 'roots/list'
        ? new Promise(() => {})
        : Promise.resolve(errorAnswer(asked.id, -1, 'the user said no', '{"k":1.0}', 'stateful'));
    const text = answerText(await bench.call('one', again));
    assert.ok(text.includes('{"code":-1,"message":"the user said no","data":{"k":1.0}}'), text);
    assert.equal(calls().length, 2, 'no further call is sent: the server waits for nothing');
  });

  test('a call whose client cannot be asked is UNKNOWN', async () => {
    const { outcome } = await asking([{ resultType: 'input_required', inputRequests: { a: ROOTS } }], {
      answers: false,
    });
    const error = failureOf(await outcome);
    assert.equal(error.outcome, 'UNKNOWN');
    assert.match(error.message, /needs input: nobody answers/);
  });

  test('broken input requests are reported, and no client is asked', async () => {
    const rounds = [
      { resultType: 'input_required' },
      { resultType: 'input_required', inputRequests: [] },
      { resultType: 'input_required', inputRequests: {} },
      { resultType: 'input_required', inputRequests: { a: { method: 'tools/call' } } },
      { resultType: 'input_required', inputRequests: { a: null } },
      { resultType: 'input_required', inputRequests: { a: { method: 'roots/list', params: [] } } },
      { resultType: 'input_required', requestState: 5 },
      '{"jsonrpc":"2.0","id":"ID","result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"\\u0061":{"method":"roots/list"}}}}',
      {
        resultType: 'input_required',
        inputRequests: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [i, ROOTS])),
      },
    ];
    for (const round of rounds) {
      const { outcome, exchange } = await asking([round, DONE]);
      const error = failureOf(await outcome);
      assert.equal(error.code, 'UPSTREAM_PROTOCOL', JSON.stringify(round));
      assert.equal(exchange.asked.length, 0);
    }
  });

  test('fault:F06 the client’s thinking does not count against the server’s deadline, which begins anew afterwards', async () => {
    const round = { resultType: 'input_required', inputRequests: { a: ROOTS }, requestState: 's' };
    const { bench, outcome, calls, script } = await asking([round], { answers: false });
    await outcome;
    let give = (_: Message): void => {};
    const slow = toolCall(clientOf('s1', EVERYTHING));
    slow.answer = () =>
      new Promise((resolve) => {
        give = resolve;
      });
    script.handlers['tools/call'] = (params) => (params['inputResponses'] === undefined ? round : SILENCE);
    const pending = bench.call('one', slow);
    await settled();
    await bench.clock.advance(10 * 60_000);
    assert.equal(slow.asked.length, 1);
    give(result('0', '{"roots":[]}', 'stateful'));
    await settled();
    assert.equal(calls().length, 3);
    await bench.clock.advance(59_999);
    let over = false;
    void pending.then(() => {
      over = true;
    });
    await settled();
    assert.equal(over, false);
    await bench.clock.advance(1);
    assert.equal(failureOf(await pending).code, 'TIMEOUT');
  });

  test('the wait for a client that never answers ends', async () => {
    const { bench, outcome } = await neverAnswered();
    await bench.clock.advance(15 * 60_000);
    const error = failureOf(await outcome);
    assert.equal(error.code, 'TIMEOUT');
    assert.match(error.message, /the client did not answer/);
    assert.equal(bench.clock.pending < 4, true, 'no timer is left behind');
  });

  test('a cancel while the client is asked, in a pause, or in a later round ends the call as UNKNOWN', async () => {
    const during = await neverAnswered();
    during.exchange.cancel('enough');
    assert.equal(failureOf(await during.outcome).outcome, 'UNKNOWN');

    const paused = await asking([{ resultType: 'input_required', requestState: 's' }]);
    paused.exchange.cancel('enough');
    await paused.bench.clock.advance(1_000);
    assert.equal(failureOf(await paused.outcome).code, 'CANCELLED');
    assert.equal(paused.calls().length, 1, 'it is not sent again');

    const later = await asking([{ resultType: 'input_required', inputRequests: { r: ROOTS } }, SILENCE]);
    assert.equal(later.calls().length, 2);
    later.exchange.cancel('enough');
    assert.equal(failureOf(await later.outcome).outcome, 'UNKNOWN');
    assert.deepEqual(later.script.links[0]!.abandoned, [later.calls()[1]!.id]);
  });

  test('a later round that is not sent does not make the call NOT_SENT', async () => {
    const { outcome, script, exchange, bench } = await neverAnswered();
    script.openFails = new GatewayError('NOT_SENT', 'nobody there');
    for (const link of script.live) link.end({ kind: 'unreachable', error: script.openFails });
    exchange.release!(result('0', '{"roots":[]}', 'stateful'));
    await bench.clock.advance(70_000);
    const error = failureOf(await outcome);
    assert.equal(error.outcome, 'UNKNOWN', error.message);
    assert.equal(error.data.retryable, false);
  });

  test('input requests work over a pipe too', async () => {
    const bench = new UpstreamBench();
    const script = new ScriptedServer({
      ...statelessServer(),
      'tools/call': (params) =>
        params['inputResponses'] === undefined ? { resultType: 'input_required', inputRequests: { a: FORM } } : DONE,
    });
    await bench.run([serverOf('one'), script]);
    const exchange = toolCall(clientOf('s1', EVERYTHING));
    exchange.answer = async (asked) => replyTo(asked);
    answerText(await bench.call('one', exchange));
    assert.equal(exchange.asked.length, 1);
  });

  test('a client of the same era gets the input request as the server wrote it', async () => {
    const bench = new UpstreamBench();
    const round = { resultType: 'input_required', inputRequests: { a: FORM }, requestState: 's' };
    await bench.run([httpServerOf('one'), new ScriptedServer({ ...statelessServer(), 'tools/call': () => round })]);
    const exchange = toolCall(clientOf(null, EVERYTHING));
    const text = answerText(await bench.call('one', exchange));
    assert.deepEqual(JSON.parse(text).result, round);
    assert.equal(exchange.asked.length, 0);
  });

  test('proto:S4 an input request hidden behind an escape is recognised', async () => {
    const asks = '"inputRequests":{"a":{"method":"roots/list"}}';
    const hidden = `{"jsonrpc":"2.0","id":"ID","result":{"result\\u0054ype":"input\\u005frequired",${asks}}}`;
    const { outcome } = await asking([hidden, DONE], { capabilities: '{}' });
    assert.match(answerText(await outcome), /-32021/);
    const page =
      '{"method":"elicitation/create","params":{"mode":"\\u0075rl","url":"https://a.example","message":"m"}}';
    const round = `{"jsonrpc":"2.0","id":"ID","result":{"resultType":"input_required","inputRequests":{"a":${page}}}}`;
    const forms = await asking([round, DONE], { capabilities: '{"elicitation":{"form":{}}}' });
    assert.match(answerText(await forms.outcome), /-32021/);
    const pages = await asking([round, DONE], { capabilities: '{"elicitation":{"url":{}}}' });
    answerText(await pages.outcome);
    assert.match(pages.exchange.asked[0]!.body.toString(), /"elicitationId":"/);
  });

  test('a server that returns in another era does not get the call again', async () => {
    const { outcome, script, exchange, bench } = await neverAnswered();
    for (const name of Object.keys(script.handlers)) delete script.handlers[name];
    Object.assign(script.handlers, statefulServer());
    for (const link of script.live) link.end({ kind: 'unreachable', error: new GatewayError('NOT_SENT', 'gone') });
    exchange.release!(result('0', '{"roots":[]}', 'stateful'));
    await bench.clock.advance(60_000);
    const error = failureOf(await outcome);
    assert.deepEqual([error.code, error.outcome], ['UNKNOWN', 'UNKNOWN']);
    assert.equal(sent(script).seen.length, 1);
  });

  test('a stateless client may write null for no state and no answers', async () => {
    const bench = new UpstreamBench();
    await bench.run([serverOf('old'), new ScriptedServer(statefulServer())]);
    const params = '{"name":"echo","arguments":{},"requestState":null,"inputResponses":null}';
    assert.match(answerText(await bench.call('old', toolCall(clientOf(null), params))), /"content"/);
  });

  test('proto:S4 a client of the same era does not get input requests that it did not declare', async () => {
    const bench = new UpstreamBench();
    const round = { resultType: 'input_required', inputRequests: { a: ROOTS, b: PAGE }, requestState: 's' };
    await bench.run([httpServerOf('one'), new ScriptedServer({ ...statelessServer(), 'tools/call': () => round })]);
    const exchange = toolCall(clientOf(null, '{"roots":{},"elicitation":{}}'));
    const { error } = JSON.parse(answerText(await bench.call('one', exchange)));
    assert.equal(error.code, -32021);
    assert.deepEqual(error.data, { requiredCapabilities: { elicitation: { url: {} } } });
  });
});

async function neverAnswered(): Promise<
  Asking & { readonly exchange: TestExchange & { release?: (answer: Message) => void } }
> {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({
    ...statelessServer(),
    'tools/call': () => ({ resultType: 'input_required', inputRequests: { a: ROOTS } }),
  });
  await bench.run([httpServerOf('one'), script]);
  const exchange: TestExchange & { release?: (answer: Message) => void } = toolCall(clientOf('s1', EVERYTHING));
  exchange.answer = () =>
    new Promise((resolve) => {
      exchange.release = resolve;
    });
  const outcome = bench.call('one', exchange);
  await settled();
  assert.equal(exchange.asked.length, 1);
  return { bench, script, exchange, outcome, calls: () => sent(script).seen };
}
