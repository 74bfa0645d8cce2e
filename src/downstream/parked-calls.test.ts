import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { DownstreamRig, stateless } from '../../test/support/downstream-rig.ts';
import { FakeClock, settled } from '../../test/support/fake-clock.ts';
import { ok } from '../../test/support/fake-core.ts';
import { LinePipes } from '../../test/support/line-pipes.ts';
import type { Reply } from '../../test/support/raw-http.ts';
import { StateSealer } from '../gateway/state-sealer.ts';
import type { Exchange } from '../model/exchange.ts';
import type { Message } from '../model/message.ts';
import { answer } from '../model/outcome.ts';
import { systemRandom } from '../model/random.ts';
import { errorAnswer, notification, request, result } from '../protocol/compose.ts';
import { ClientExchange } from './client-exchange.ts';
import { ExchangeList } from './exchange-list.ts';
import { ParkingLot } from './parking-lot.ts';

const KEY = Buffer.alloc(32, 7);
const DECLARED = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const FORM = '{"mode":"form","message":"who?","requestedSchema":{"type":"object","x":1.0}}';
const PAGE = '{"mode":"url","elicitationId":"e-1","url":"https://x.example/","message":"go"}';

const LOGS = { 'io.modelcontextprotocol/logLevel': 'info' };

let clock: FakeClock;
let rig: DownstreamRig;
/** What the server got for an answer to what it asked, and what became of it. */
let answers: (Message | Error)[];
let cancels: string[];

before(async () => {
  clock = new FakeClock(Date.UTC(2026, 7, 1));
  rig = await DownstreamRig.start({ clock, key: KEY, agents: { ann: null, bob: null }, unknownCallers: 'allow' });
});
after(() => rig.close());
beforeEach(() => {
  answers = [];
  cancels = [];
});

const question = (method: string, params: string | null, id = '"s1"') => request(method, id, params, 'stateful');
const form = () => question('elicitation/create', FORM);

/** A server that asks one thing after the other, then answers. */
function serverAsking(...rounds: (() => Message[])[]): void {
  rig.core.on('tools/call', async (exchange) => {
    exchange.onCancel = (reason) => cancels.push(reason);
    for (const round of rounds) {
      const asked = round().map((one) => exchange.ask(one).catch((error: Error) => error));
      answers.push(...(await Promise.all(asked)));
    }
    exchange.onCancel = null;
    return answer(result('0', '{"content":[],"n":1.0}', 'stateful'));
  });
}

interface Sent {
  readonly params?: Record<string, unknown>;
  readonly id?: string | number;
  readonly capabilities?: object;
  readonly path?: string;
  readonly key?: string;
  readonly meta?: Record<string, unknown>;
}

/** One POST; time goes on until it is answered. */
async function post({ params = {}, id = 1, capabilities = DECLARED, path, key, meta }: Sent = {}): Promise<Reply> {
  const { body, headers } = stateless('tools/call', { name: 't', ...params }, { id, capabilities });
  const withMeta =
    meta === undefined ? body : body.replace('"_meta":{', `"_meta":{${JSON.stringify(meta).slice(1, -1)},`);
  const auth: Record<string, string> = key === undefined ? {} : { authorization: `Bearer key-of-${key}` };
  let reply: Reply | null = null;
  const replied = rig.post(withMeta, { ...headers, ...auth }, path).then((given) => {
    reply = given;
  });
  while (reply === null) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await clock.advance(1);
  }
  await replied;
  return reply!;
}

type Asked = {
  resultType: string;
  inputRequests: Record<string, { method: string; params?: object }>;
  requestState: string;
};
const askedIn = (reply: Reply): Asked => reply.json.result as Asked;

/** The retry that answers everything the result asks, with `{"key":…}`. */
const retry = (asked: Asked, more: Record<string, unknown> = {}) => ({
  inputResponses: Object.fromEntries(Object.keys(asked.inputRequests).map((key) => [key, { key }])),
  requestState: asked.requestState,
  ...more,
});

describe('proto:S3 check:B8 check:B13 a stateful server that asks, before a stateless client', () => {
  test('the call is parked with its question, and goes on with the answer in the retry', async () => {
    serverAsking(() => [form()]);
    const first = await post({ id: 'a' });
    assert.equal(first.status, 200);
    assert.equal(first.headers['content-type'], 'application/json');
    const asked = askedIn(first);
    assert.equal(asked.resultType, 'input_required');
    assert.ok(first.text.includes(`{"method":"elicitation/create","params":${FORM}}`), 'the question passes as bytes');
    assert.equal(rig.downstream.parked, 1);
    assert.deepEqual(cancels, [], 'the end of the answered request is no cancel');
    const second = await post({ id: 'b', params: retry(asked, { unknown: 1 }) });
    assert.equal(second.json.error?.code, -32602, 'other params are another request');
    const third = await post({
      id: 'c',
      params: {
        inputResponses: { ask1: { action: 'accept', content: { n: 1 } }, stranger: {} },
        requestState: asked.requestState,
      },
    });
    assert.equal(third.text, '{"jsonrpc":"2.0","id":"c","result":{"resultType":"complete","content":[],"n":1.0}}');
    assert.equal((answers[0] as Message).body.toString(), '{"action":"accept","content":{"n":1}}');
    assert.equal(rig.downstream.parked, 0);
    assert.deepEqual(cancels, []);
  });

  test('what is asked within a moment is one round; what is not answered is asked again, unknown keys are nobody’s', async () => {
    serverAsking(() => [
      form(),
      question('sampling/createMessage', '{"maxTokens":1}', '2'),
      question('roots/list', null, '3'),
    ]);
    const asked = askedIn(await post());
    assert.deepEqual(
      Object.values(asked.inputRequests).map(({ method }) => method),
      ['elicitation/create', 'sampling/createMessage', 'roots/list'],
    );
    const [first] = Object.keys(asked.inputRequests);
    const half = { inputResponses: { [first!]: {}, no: 5 }, requestState: asked.requestState };
    const again = askedIn(await post({ params: half }));
    assert.deepEqual(Object.keys(again.inputRequests), Object.keys(asked.inputRequests).slice(1));
    assert.notEqual(again.requestState, asked.requestState);
    const none = askedIn(await post({ params: { requestState: again.requestState } }));
    assert.deepEqual(Object.keys(none.inputRequests), Object.keys(again.inputRequests));
    const done = await post({ params: retry(none) });
    assert.equal(done.json.result.resultType, 'complete');
    assert.equal(answers.length, 3);
  });

  test('a second question of the same call is a second round', async () => {
    serverAsking(
      () => [form()],
      () => [question('elicitation/create', PAGE)],
    );
    const first = askedIn(await post());
    const second = askedIn(await post({ params: retry(first) }));
    assert.deepEqual(Object.values(second.inputRequests), [
      { method: 'elicitation/create', params: { mode: 'url', url: 'https://x.example/', message: 'go' } },
    ]);
    assert.notDeepEqual(Object.keys(second.inputRequests), Object.keys(first.inputRequests));
    assert.equal((await post({ params: retry(second) })).json.result.resultType, 'complete');
  });

  test('proto:S4 what the client did not declare is refused to the server, modes included', async () => {
    const cases: [object, Message][] = [
      [{}, form()],
      [{ elicitation: {} }, question('elicitation/create', PAGE)],
      [{ elicitation: { url: {} } }, form()],
      [{ sampling: {} }, question('sampling/createMessage', '{"tools":[]}')],
      [DECLARED, question('tasks/get', '{}')],
    ];
    for (const [capabilities, one] of cases) {
      answers = [];
      serverAsking(() => [one]);
      const reply = await post({ capabilities });
      assert.equal(reply.json.result.resultType, 'complete', one.method);
      assert.ok(answers[0] instanceof Error, one.method);
    }
    rig.core.on('resources/list', async (exchange) => {
      await assert.rejects(exchange.ask(form()), /nothing can be asked/);
      return ok(exchange, '{}');
    });
    const { body, headers } = stateless('resources/list', {}, { capabilities: DECLARED });
    assert.equal((await rig.post(body, headers)).status, 200);
  });

  test('proto:S3 proto:S6 tampered, foreign, reused and expired states are -32602, and nothing runs', async () => {
    serverAsking(() => [form()]);
    const asked = askedIn(await post({ key: 'ann' }));
    const { requestState } = asked;
    const ran = rig.core.ran.length;
    const at = requestState.length - 5;
    const flipped = requestState.slice(0, at) + (requestState[at] === 'A' ? 'B' : 'A') + requestState.slice(at + 1);
    const other = stateless('prompts/get', { name: 't', requestState }, { capabilities: DECLARED });
    const bad: [string, Promise<Reply>][] = [
      ['tampered', post({ key: 'ann', params: { requestState: flipped } })],
      ['cut', post({ key: 'ann', params: { requestState: requestState.slice(0, -1) } })],
      ['principal', post({ key: 'bob', params: { requestState } })],
      ['nobody', post({ params: { requestState } })],
      ['endpoint', post({ key: 'ann', params: { requestState }, path: '/servers/memory/mcp' })],
      ['tool', post({ key: 'ann', params: { requestState, name: 'u' } })],
      ['arguments', post({ key: 'ann', params: { requestState, arguments: { a: 1 } } })],
      ['method', rig.post(other.body, { ...other.headers, authorization: 'Bearer key-of-ann' })],
      ['answers', post({ key: 'ann', params: { requestState, inputResponses: [] } })],
    ];
    for (const [what, sent] of bad) {
      const reply = await sent;
      assert.equal(reply.json.error?.code, -32602, what);
    }
    assert.equal(rig.core.ran.length, ran);
    assert.equal(rig.downstream.parked, 1, 'and the call still waits');
    assert.equal((await post({ key: 'ann', params: retry(asked) })).json.result.resultType, 'complete');
    assert.equal((await post({ key: 'ann', params: retry(asked) })).json.error.code, -32602, 'reused');
    const late = askedIn(await post({ key: 'ann' }));
    const before = rig.core.ran.length;
    await clock.advance(10 * 60_000);
    assert.deepEqual(cancels.length, 1, 'a parked call that nobody comes back to is cancelled');
    assert.equal(rig.downstream.parked, 0);
    assert.equal((await post({ key: 'ann', params: retry(late) })).json.error.code, -32602, 'expired');
    assert.equal(rig.core.ran.length, before);
  });

  test('order of members and the tokens of `_meta` make no other request', async () => {
    serverAsking(() => [form()]);
    const asked = askedIn(await post({ params: { arguments: { a: 1, b: [1.5] }, z: 1 } }));
    const params = { z: 1, arguments: { b: [1.5], a: 1 }, ...retry(asked) };
    assert.equal((await post({ params, meta: { progressToken: 'new' } })).json.result.resultType, 'complete');
  });

  test('progress goes under the token of the request that waits for it, and nothing is lost but progress', async () => {
    const progress = (n: number) =>
      notification('notifications/progress', `{"progressToken":"old","progress":${n}}`, 'stateful');
    const log = (text: string) =>
      notification('notifications/message', `{"level":"info","data":"${text}"}`, 'stateful');
    let call: Exchange | null = null;
    rig.core.on('tools/call', async (exchange) => {
      call = exchange;
      await exchange.ask(form());
      exchange.emit(progress(2));
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const asked = askedIn(await post({ meta: { progressToken: 'old', ...LOGS } }));
    call!.emit(progress(1));
    call!.emit(log('meanwhile'));
    const reply = await post({ params: retry(asked), meta: { progressToken: 7, ...LOGS } });
    const events = reply.text.split('\n').filter((line) => line.startsWith('data: '));
    const messages = events.map((line) => JSON.parse(line.slice(6)));
    assert.deepEqual(messages[0].params, { level: 'info', data: 'meanwhile' });
    assert.deepEqual(messages[1].params, { progressToken: 7, progress: 2 });
    assert.equal(messages[2].result.resultType, 'complete');
    assert.equal(messages.length, 3);
  });

  test('a stream that is open ends with the question', async () => {
    rig.core.on('tools/call', async (exchange) => {
      exchange.emit(notification('notifications/message', '{"level":"info","data":"first"}', 'stateful'));
      await exchange.ask(form());
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const reply = await post({ id: 'x', meta: LOGS });
    assert.match(reply.headers['content-type'] as string, /event-stream/);
    const last = JSON.parse(reply.text.trim().split('\n').at(-1)!.slice(6));
    assert.equal(last.id, 'x');
    assert.equal(last.result.resultType, 'input_required');
    assert.equal((await post({ params: retry(last.result) })).json.result.resultType, 'complete');
  });

  test('what the server answers while nobody is there waits for the client', async () => {
    let asked: Promise<unknown> | null = null;
    let give = (): void => {};
    rig.core.on('tools/call', async (exchange) => {
      asked = exchange.ask(form()).catch((error: Error) => error);
      await new Promise<void>((resolve) => {
        give = resolve;
      });
      return answer(errorAnswer('0', -5, 'gave up', null, 'stateful'));
    });
    const first = askedIn(await post());
    give();
    assert.ok((await asked!) instanceof Error);
    const reply = await post({ params: retry(first) });
    assert.deepEqual(reply.json.error, { code: -5, message: 'gave up' });
    assert.equal(rig.downstream.parked, 0);
  });

  test('a question that the server calls off is not asked any more', async () => {
    rig.core.on('tools/call', async (exchange) => {
      const off = exchange.ask(question('roots/list', null, '"off"'));
      const on = exchange.ask(form());
      exchange.emit(notification('notifications/cancelled', '{"requestId":"off"}', 'stateful'));
      await assert.rejects(off, /called its request off/);
      await on;
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const asked = askedIn(await post());
    assert.deepEqual(
      Object.values(asked.inputRequests).map(({ method }) => method),
      ['elicitation/create'],
    );
    assert.equal((await post({ params: retry(asked) })).json.result.resultType, 'complete');
  });

  test('a lost connection of the retry cancels the call, as of any request of this revision', async () => {
    serverAsking(
      () => [form()],
      () => [],
    );
    let release = (): void => {};
    rig.core.on('tools/call', async (exchange) => {
      await exchange.ask(form());
      await new Promise<void>((resolve) => {
        release = resolve;
        exchange.onCancel = (reason) => {
          cancels.push(reason);
          resolve();
        };
      });
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const asked = askedIn(await post());
    const { body, headers } = stateless('tools/call', { name: 't', ...retry(asked) }, { capabilities: DECLARED });
    const aborted = new AbortController();
    const lost = fetch(rig.url(), {
      method: 'POST',
      body,
      headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      signal: aborted.signal,
    }).catch(() => null);
    while (rig.downstream.parked > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await settled();
    aborted.abort();
    await lost;
    while (cancels.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.deepEqual(cancels, ['the client closed the connection']);
    release();
  });

  test('after a restart the call is UNKNOWN, and is not run again', async () => {
    serverAsking(() => [form()]);
    const asked = askedIn(await post());
    const successor = await DownstreamRig.start({ clock, key: KEY, agents: { ann: null }, unknownCallers: 'allow' });
    try {
      const { body, headers } = stateless('tools/call', { name: 't', ...retry(asked) }, { capabilities: DECLARED });
      const reply = await successor.post(body, headers);
      assert.equal(reply.json.error.code, 53002);
      assert.equal(reply.json.error.data.outcome, 'UNKNOWN');
      assert.equal(successor.core.ran.length, 0);
      const stranger = await DownstreamRig.start({ clock, unknownCallers: 'allow' });
      assert.equal((await stranger.post(body, headers)).json.error.code, -32602, 'a state of another installation');
      await stranger.close();
    } finally {
      await successor.close();
    }
    assert.equal((await post({ params: retry(asked) })).json.result.resultType, 'complete');
  });

  test('a server that turns the call away till its user was on a page: the pages are asked, the retry calls again', async () => {
    const pages = `{"elicitations":[${PAGE}]}`;
    let turn = 0;
    rig.core.on('tools/call', (exchange) =>
      turn++ % 2 === 0
        ? answer(errorAnswer('0', -32042, 'needs you', pages, 'stateful'))
        : answer(result('0', `{"content":[],"had":${exchange.request.bytes.includes('requestState')}}`, 'stateful')),
    );
    const reply = await post();
    const asked = askedIn(reply);
    assert.deepEqual(asked.inputRequests, {
      ask1: { method: 'elicitation/create', params: { mode: 'url', url: 'https://x.example/', message: 'go' } },
    });
    const ran = rig.core.ran.length;
    const tampered = { ...retry(asked), arguments: { a: 1 } };
    assert.equal((await post({ params: tampered })).json.error.code, -32602);
    const declined = { inputResponses: { ask1: { action: 'decline' } }, requestState: asked.requestState };
    assert.equal((await post({ params: declined })).json.error.data.outcome, 'REFUSED');
    assert.equal(rig.core.ran.length, ran, 'nothing ran');
    const done = await post({ params: retry(asked) });
    assert.deepEqual(done.json.result, { resultType: 'complete', content: [], had: false });
    assert.equal((await post({ params: retry(asked) })).json.error.code, -32602, 'once');
    const formsOnly = await post({ capabilities: { elicitation: {} } });
    assert.equal(formsOnly.status, 400);
    assert.equal(formsOnly.json.error.code, -32021);
    assert.deepEqual(formsOnly.json.error.data, { requiredCapabilities: { elicitation: { url: {} } } });
  });

  test('check:B10 on pipes too; when they end, so do the calls whose client they led to', async () => {
    serverAsking(() => [form()]);
    const pipes = new LinePipes();
    const front = rig.downstream.stdio(pipes);
    const send = (id: string, params: object) =>
      pipes.send(stateless('tools/call', { name: 't', ...params }, { id, capabilities: DECLARED }).body);
    const message = async () => {
      let come = false;
      const line = pipes.message().finally(() => {
        come = true;
      });
      while (!come) await clock.advance(1);
      return line;
    };
    send('a', {});
    const first = await message();
    assert.equal(first.id, 'a');
    assert.equal(first.result.resultType, 'input_required');
    assert.equal(
      (await post({ path: '/mcp', params: { requestState: `${first.result.requestState}x` } })).json.error.code,
      -32602,
    );
    send('b', retry(first.result));
    assert.deepEqual(await message(), {
      jsonrpc: '2.0',
      id: 'b',
      result: { resultType: 'complete', content: [], n: 1 },
    });
    send('c', retry(first.result));
    assert.equal((await message()).error.code, -32602);
    send('d', {});
    assert.equal((await message()).result.resultType, 'input_required');
    assert.equal(rig.downstream.parked, 1);
    assert.deepEqual(cancels, []);
    pipes.input.end();
    await front.closed;
    assert.equal(rig.downstream.parked, 0);
    assert.deepEqual(cancels, ['the client is gone']);
  });

  test('what may wait is bounded for one principal, and beyond it the server is refused its question', async () => {
    const lot = new ParkingLot({
      clock,
      random: systemRandom,
      sealer: new StateSealer({ key: KEY, clock, random: systemRandom }),
    });
    const principal = { id: 'agent:x', name: 'x', servers: null };
    const list = new ExchangeList();
    const begin = (bytes: number, who = principal): void => {
      const message = request('tools/call', '1', `{"name":"${'t'.repeat(bytes)}"}`, 'stateless');
      const client = { ...rig.core.ran[0]!.client, principal: who };
      const exchange = new ClientExchange(message, client, { ...NO_REPLY });
      list.add(exchange);
      lot.begin(exchange, list, MCP, null);
    };
    for (let i = 0; i < 2_048; i++) begin(1);
    assert.throws(() => begin(1), { code: 'OVERLOADED' });
    const other = { ...principal, id: 'agent:y' };
    begin(1, other);
    assert.throws(() => begin(64 * 1024 * 1024, other), { code: 'OVERLOADED' });
  });

  test('whoever loses rights while a call is parked is not let back to it', async () => {
    serverAsking(() => [form()]);
    const asked = askedIn(await post({ key: 'ann' }));
    rig.reload({ ann: ['memory'], bob: null });
    assert.equal(cancels.length, 1);
    const reply = await post({ key: 'ann', params: retry(asked) });
    assert.equal(reply.json.error.code, 53009);
    rig.reload({ ann: null, bob: null });
  });
});

const MCP = { kind: 'aggregate', server: '', path: '/mcp' } as const;
const NO_REPLY = {
  canAsk: true,
  notify: () => {},
  askFor: () => Promise.reject(new Error('not asked')),
  answer: () => {},
  cancelled: () => {},
};
