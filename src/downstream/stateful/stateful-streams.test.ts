import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { type Json, send } from '../../../test/support/raw-http.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { LATEST_STATEFUL, type Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { notification, request } from '../../protocol/compose.ts';
import type { ClientExchange } from '../session/client-exchange.ts';

const CAPABILITIES = { sampling: {}, roots: {}, elicitation: { form: {} } };

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start({ patienceMs: 150 });
});
after(() => rig.close());

/** A call that waits in the core until the test finishes it. */
class Held {
  readonly started: Promise<Exchange>;
  #start!: (exchange: Exchange) => void;
  #finish!: (outcome: Outcome) => void;

  constructor(method = 'tools/call') {
    this.started = new Promise((resolve) => {
      this.#start = resolve;
    });
    rig.core.on(method, (exchange) => {
      rig.core.handlers.delete(method);
      this.#start(exchange);
      return new Promise((resolve) => {
        this.#finish = resolve;
      });
    });
  }

  finish(outcome: Outcome): void {
    this.#finish(outcome);
  }
}

function progress(n: number): Message {
  return notification('notifications/progress', `{"progressToken":"t","progress":${n}}`, 'stateful');
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

function numbers(events: readonly { readonly data: string }[]): Json[] {
  return events
    .filter(({ data }) => data !== '')
    .map(({ data }) => {
      const message = JSON.parse(data);
      return message.params?.progress ?? message.id;
    });
}

test('a call with messages becomes a stream: first event id, messages, answer, end', async () => {
  const headers = await rig.session();
  const held = new Held();
  const opening = rig.stream(call(4, 'tools/call', { name: 't' }), headers);
  const exchange = await held.started;
  exchange.emit(progress(1));
  const stream = await opening;
  assert.equal(stream.headers['content-type'], 'text/event-stream');
  assert.equal(stream.headers['x-accel-buffering'], 'no');
  const first = await stream.next();
  assert.equal(first?.data, '');
  assert.ok(first.id);
  assert.deepEqual(stream.retries, [1_000]);
  assert.equal((await stream.message()).params.progress, 1);
  exchange.emit(progress(2));
  assert.equal((await stream.message()).params.progress, 2);
  held.finish(ok(exchange, '{"content":[]}'));
  assert.deepEqual(await stream.message(), { jsonrpc: '2.0', id: 4, result: { content: [] } });
  assert.equal(await stream.next(), null);
});

test('a call without an early answer becomes a stream; older revisions get no empty event', async () => {
  for (const [revision, empty] of [
    ['2025-11-25', 1],
    ['2025-06-18', 0],
  ] as const) {
    const headers = await rig.session({ revision });
    const held = new Held();
    const stream = await rig.stream(call(4, 'tools/call', { name: 't' }), headers);
    assert.equal(stream.headers['content-type'], 'text/event-stream');
    held.finish(ok(await held.started, '{}'));
    const events = await stream.rest();
    assert.equal(events.length, empty + 1);
    assert.equal(events.filter(({ data }) => data === '').length, empty);
    assert.ok(events.every(({ id }) => id !== null));
  }
});

test('a client that accepts no stream gets JSON, without earlier messages', async () => {
  const headers = { ...(await rig.session({ capabilities: CAPABILITIES })), accept: 'application/json' };
  const held = new Held();
  const reply = rig.post(call(4, 'tools/call', { name: 't' }), headers);
  const exchange = await held.started;
  exchange.emit(progress(1));
  await assert.rejects(exchange.ask(request('roots/list', '1', null, 'stateful')), { code: 'MISSING_CAPABILITY' });
  await new Promise((resolve) => setTimeout(resolve, 250));
  held.finish(ok(exchange, '{"x":1}'));
  assert.deepEqual((await reply).json.result, { x: 1 });
});

test('check:B7 fault:F17 a broken stream loses nothing: the call goes on and the client returns for the rest', async () => {
  const headers = await rig.session();
  const held = new Held();
  const opening = rig.stream(call(4, 'tools/call', { name: 't' }), headers);
  const exchange = await held.started;
  exchange.emit(progress(1));
  const stream = await opening;
  await stream.next();
  const seen = await stream.next();
  stream.drop();
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(exchange.cancelled, null);
  exchange.emit(progress(2));
  exchange.emit(progress(3));
  const second = await rig.listen({ ...headers, 'last-event-id': seen!.id! });
  assert.equal((await second.message()).params.progress, 2);
  const third = await second.next();
  exchange.emit(progress(4));
  assert.equal((await second.message()).params.progress, 4, 'the resumed stream continues with new messages');
  second.drop();
  await new Promise((resolve) => setTimeout(resolve, 30));
  held.finish(ok(exchange, '{}'));
  const last = await rig.listen({ ...headers, 'last-event-id': third!.id! });
  assert.deepEqual(numbers(await last.rest()), [4, 4], 'progress 4, then the answer to request 4, then the end');
});

test('fault:F17 the answer is kept for a client that returns after the call is over', async () => {
  const headers = await rig.session();
  const held = new Held();
  const stream = await rig.stream(call('late', 'tools/call', { name: 't' }), headers);
  const first = await stream.next();
  stream.drop();
  held.finish(ok(await held.started, '{"kept":true}'));
  await new Promise((resolve) => setTimeout(resolve, 30));
  const back = await rig.listen({ ...headers, 'last-event-id': first!.id! });
  assert.deepEqual(await back.message(), { jsonrpc: '2.0', id: 'late', result: { kept: true } });
  assert.equal(await back.next(), null);
});

test('proto:S2 events of another session, or of none, are not replayed', async () => {
  const mine = await rig.session();
  const theirs = await rig.session();
  const held = new Held();
  const stream = await rig.stream(call(1, 'tools/call', { name: 't' }), theirs);
  const exchange = await held.started;
  const first = await stream.next();
  const standalone = await rig.listen(theirs);
  const other = await standalone.next();
  for (const id of [first!.id!, other!.id!, 'x', 'g~1', '0', `${first!.id}0`]) {
    const reply = await send(rig.url(), 'GET', { ...mine, accept: 'text/event-stream', 'last-event-id': id });
    assert.equal(reply.status, 400, id);
  }
  held.finish(ok(exchange, '{}'));
  assert.equal((await stream.message()).id, 1, 'the owner of the stream lost no message');
});

test('an input request of a server has an id of the gateway, and its answer returns to the server', async () => {
  const headers = await rig.session({ capabilities: CAPABILITIES });
  const held = new Held();
  const opening = rig.stream(call(4, 'tools/call', { name: 't' }), headers);
  const exchange = await held.started;
  const params = '{"messages":[],"maxTokens":12345678901234567890}';
  const asking = exchange.ask(request('sampling/createMessage', '77', params, 'stateful'));
  const stream = await opening;
  await stream.next();
  const event = await stream.next();
  assert.ok(event!.data.includes('"maxTokens":12345678901234567890'));
  const asked = JSON.parse(event!.data);
  assert.equal(asked.method, 'sampling/createMessage');
  assert.equal(typeof asked.id, 'string');
  const stranger = await rig.session({ capabilities: CAPABILITIES });
  const body = `{"jsonrpc":"2.0","id":${JSON.stringify(asked.id)},"result":{"n":1.0}}`;
  assert.equal((await rig.post(body, stranger)).status, 400, 'another session cannot answer');
  assert.equal((await rig.post(body, headers)).status, 202);
  const answered = await asking;
  assert.equal(answered.body.toString(), '{"n":1.0}');
  assert.equal((await rig.post(body, headers)).status, 202, 'a second answer is late, and dropped');
  held.finish(ok(exchange, '{}'));
  assert.equal((await stream.message()).id, 4);
});

test('proto:S4 the client gets no input request that it did not declare', async () => {
  const cases: [object, string, string | null, boolean][] = [
    [{}, 'sampling/createMessage', null, false],
    [{}, 'roots/list', null, false],
    [{ roots: {} }, 'roots/list', null, true],
    [{ elicitation: {} }, 'elicitation/create', '{"mode":"form"}', true],
    [{ elicitation: {} }, 'elicitation/create', null, true],
    [{ elicitation: { form: {} } }, 'elicitation/create', '{"mode":"url"}', false],
    [{ elicitation: { url: {} } }, 'elicitation/create', '{"mode":"form"}', false],
    [{ elicitation: { url: {} } }, 'elicitation/create', '{"mode":"url"}', true],
    [{}, 'ping', null, true],
  ];
  for (const [capabilities, method, params, may] of cases) {
    const headers = await rig.session({ capabilities });
    const held = new Held();
    const opening = rig.stream(call(1, 'tools/call', { name: 't' }), headers);
    const exchange = await held.started;
    const asking = exchange.ask(request(method, '1', params, 'stateful'));
    asking.catch(() => {});
    if (!may) await assert.rejects(asking, { code: 'MISSING_CAPABILITY' }, `${method} ${JSON.stringify(capabilities)}`);
    held.finish(ok(exchange, '{}'));
    const events = (await (await opening).rest()).filter(({ data }) => data.includes(`"${method}"`));
    assert.equal(events.length, may ? 1 : 0);
    if (may) await assert.rejects(asking, { code: 'CANCELLED' }, 'the call is over, so its input request is cancelled');
  }
});

test('a cancelled input request reaches the client under the id that it knows', async () => {
  const headers = await rig.session({ capabilities: CAPABILITIES });
  const held = new Held();
  const opening = rig.stream(call(1, 'tools/call', { name: 't' }), headers);
  const exchange = await held.started;
  const asking = exchange.ask(request('roots/list', '"srv-9"', null, 'stateful'));
  asking.catch(() => {});
  const stream = await opening;
  const asked = await stream.message();
  exchange.emit(notification('notifications/cancelled', '{"requestId":"other"}', 'stateful'));
  exchange.emit(notification('notifications/cancelled', '{"requestId":"srv-9","reason":"no"}', 'stateful'));
  assert.deepEqual((await stream.message()).params, { requestId: asked.id, reason: 'no' });
  await assert.rejects(asking, { code: 'CANCELLED' });
  held.finish(ok(exchange, '{}'));
  assert.equal((await stream.message()).id, 1);
});

test('a cancel finds the call of its own session, and no answer follows', async () => {
  const headers = await rig.session();
  const stranger = await rig.session();
  const params = '{"requestId":"c","reason":"Esc \\u00e9"}';
  const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`;
  const held = new Held();
  const stream = await rig.stream(call('c', 'tools/call', { name: 't' }), headers);
  const exchange = await held.started;
  let reported = '';
  exchange.onCancel = (reason) => {
    reported = reason;
    held.finish(failure(new GatewayError('CANCELLED', reason)));
  };
  assert.equal((await rig.post(cancel, stranger)).status, 202);
  assert.equal(reported, '');
  assert.equal((await rig.post(cancel, headers)).status, 202);
  assert.equal(reported, 'Esc é', 'the server receives the client’s reason');
  assert.deepEqual(numbers(await stream.rest()), []);
});

test('check:B7 the GET stream carries messages without a call; earlier ones wait for it', async () => {
  const headers = await rig.session({ capabilities: CAPABILITIES });
  const { id } = rig.downstream.sessions.find(headers['mcp-session-id']!)!;
  const changed = notification('notifications/tools/list_changed', null, 'stateful');
  await assert.rejects(rig.downstream.ask(id, request('roots/list', '1', null, 'stateful')), {
    code: 'MISSING_CAPABILITY',
  });
  rig.downstream.deliver(id, changed);
  const stream = await rig.listen(headers);
  assert.equal(stream.status, 200);
  assert.equal((await stream.message()).method, 'notifications/tools/list_changed');
  rig.downstream.deliver(id, notification('notifications/message', '{"data":1.0}', 'stateful'));
  const event = await stream.next();
  assert.ok(event!.data.includes('1.0'));
  const asking = rig.downstream.ask(id, request('roots/list', '1', null, 'stateful'));
  const asked = await stream.message();
  await rig.post(`{"jsonrpc":"2.0","id":"${asked.id}","error":{"code":-1,"message":"no"}}`, headers);
  assert.equal((await asking).kind, 'error');
  stream.drop();
  const session = rig.downstream.sessions.get(id)!;
  await until(() => session.channel?.open === false);
  rig.downstream.deliver(id, changed);
  const back = await rig.listen({ ...headers, 'last-event-id': event!.id! });
  assert.equal((await back.message()).id, asked.id, 'replay begins right after the event the client names');
  assert.equal((await back.message()).method, 'notifications/tools/list_changed');
  rig.downstream.deliver(id, changed);
  assert.equal((await back.message()).method, 'notifications/tools/list_changed');
  back.drop();
});

test('several GET streams are allowed; each message goes only to the youngest', async () => {
  const headers = await rig.session();
  const { id } = rig.downstream.sessions.find(headers['mcp-session-id']!)!;
  const one = await rig.listen(headers);
  const two = await rig.listen(headers);
  assert.equal(two.status, 200);
  await one.next();
  await two.next();
  rig.downstream.deliver(id, progress(1));
  assert.equal((await two.message()).params.progress, 1);
  two.drop();
  const session = rig.downstream.sessions.get(id)!;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(session.channel?.open, true);
  rig.downstream.deliver(id, progress(2));
  assert.equal((await one.message()).params.progress, 2, 'and to the other when the youngest is gone');
  await send(rig.url(), 'DELETE', headers);
  assert.equal(await one.next(), null);
});

test('a batch whose calls take long becomes one stream with all answers', async () => {
  const headers = await rig.session({ revision: '2025-03-26' });
  const held = new Held();
  const stream = await rig.stream(`[${call(1, 'ping')},${call(2, 'tools/call')}]`, headers);
  assert.equal((await stream.message()).id, 1);
  held.finish(ok(await held.started, '{}'));
  assert.deepEqual(numbers(await stream.rest()), [2]);
});

test('pretty-printed answers stay one line of data', async () => {
  const headers = await rig.session();
  const held = new Held();
  const stream = await rig.stream(call(1, 'tools/call'), headers);
  held.finish(ok(await held.started, '{\n  "a": "x\\n",\r\n  "b": 1.0\n}'));
  await stream.next();
  const event = await stream.next();
  assert.equal(event!.data.includes('\n'), false);
  assert.deepEqual(JSON.parse(event!.data).result, { a: 'x\n', b: 1 });
});

test('fault:F33 draining: no new sessions or streams, listening ends, calls finish', async () => {
  const other = await DownstreamRig.start({ patienceMs: 60_000 });
  try {
    const headers = await other.session();
    const stream = await other.listen(headers);
    await stream.next();
    let finish!: () => void;
    other.core.on(
      'tools/call',
      (exchange) =>
        new Promise((resolve) => {
          finish = () => resolve(ok(exchange, '{"done":true}'));
        }),
    );
    const running = other.post(call(1, 'tools/call'), headers);
    await until(() => finish !== undefined);
    other.downstream.drain();
    assert.equal(await stream.next(), null);
    const refused = await other.post(call(1, 'initialize', { protocolVersion: LATEST_STATEFUL, capabilities: {} }));
    assert.equal(refused.status, 503);
    assert.ok(Number(refused.headers['retry-after']) > 0);
    assert.equal((await send(other.url(), 'GET', { ...headers, accept: 'text/event-stream' })).status, 503);
    assert.equal((await send(other.url('/sse'), 'GET')).status, 503);
    assert.equal(other.downstream.inFlight, 1);
    finish();
    assert.deepEqual((await running).json.result, { done: true });
    assert.equal(other.downstream.inFlight, 0);
  } finally {
    await other.close();
  }
});

test('when the gateway stops before a call is over, the client gets UNKNOWN', async () => {
  const other = await DownstreamRig.start({ patienceMs: 60_000 });
  let reported = '';
  let running = false;
  other.core.on('tools/call', (exchange) => {
    running = true;
    exchange.onCancel = (reason) => {
      reported = reason;
    };
    return new Promise(() => {});
  });
  const path = '/servers/memory/mcp';
  const reply = other.post(call(9, 'tools/call'), await other.session({ path }), path);
  await until(() => running);
  other.downstream.close();
  const { json } = await reply;
  assert.equal(json.id, 9);
  assert.equal(json.error.code, 53002);
  assert.notEqual(reported, '');
  await other.close();
});

test('the gateway knows whether a client receives the answer: not after its stream broke, until the client returns', async () => {
  const headers = await rig.session({ capabilities: CAPABILITIES });
  const held = new Held('tasks/result');
  const stream = await rig.stream(call(1, 'tasks/result', { taskId: 't' }), headers);
  const { reply } = (await held.started) as ClientExchange;
  const first = await stream.next();
  assert.equal(reply.isDisconnected, false);
  stream.drop();
  await until(() => reply.isDisconnected === true);
  const back = await rig.listen({ ...headers, 'last-event-id': first!.id! });
  await until(() => reply.isDisconnected === false);
  held.finish(ok(await held.started, '{}'));
  assert.equal((await back.message()).id, 1);
});
