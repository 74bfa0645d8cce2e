import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { after, before, test } from 'node:test';
import { call, DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { FakeCore, ok } from '../../../test/support/fake-core.ts';
import { LinePipes } from '../../../test/support/line-pipes.ts';
import type { HttpClientPort } from '../../http/client/client-port.ts';
import { HttpFailure } from '../../http/client/http-failure.ts';
import { openHttpClient } from '../../http/client/open-http-client.ts';
import { type Clock, systemClock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { bodyString } from '../../protocol/body.ts';
import { notification, request } from '../../protocol/compose.ts';
import { StateFile } from '../../store/state-file.ts';
import { Logger } from '../../telemetry/logger.ts';
import { StdioBridge } from './stdio-bridge.ts';

const INIT = call(0, 'initialize', {
  protocolVersion: '2025-11-25',
  capabilities: { roots: {} },
  clientInfo: { name: 'c' },
});
const INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}';

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start({ patienceMs: 100, agents: { ada: null } });
});
after(() => rig.close());

function bridge(
  port: number,
  patienceMs = 5_000,
  key = 'key-of-ada',
  clock: Clock = systemClock,
): { pipes: LinePipes; handler: StdioBridge } {
  const pipes = new LinePipes();
  const client = openHttpClient(`http://127.0.0.1:${port}`);
  const headers = ['Authorization', `Bearer ${key}`];
  return { pipes, handler: new StdioBridge(pipes, { ...DEPS, client, headers, patienceMs, clock }) };
}

/** Lets requests of the method run until they are cancelled. Each call of the returned function waits for the next one. */
function hanging(method: string): () => Promise<Exchange> {
  const began: Exchange[] = [];
  rig.core.on(method, (exchange) => {
    began.push(exchange);
    return new Promise((resolve) => {
      exchange.onCancel = (reason) => resolve(failure(new GatewayError('CANCELLED', reason)));
    });
  });
  return async () => {
    await until(() => began.length > 0);
    return began.shift()!;
  };
}

const DEPS = {
  path: '/mcp',
  headers: [],
  clock: systemClock,
  logger: Logger.silent(),
  maxMessageBytes: 1024 * 1024,
};

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

test('check:B10 a stateful client on pipes reaches a running gateway, with notifications, input requests and the end of the session', async () => {
  const { pipes, handler } = bridge(rig.listener.port);
  assert.equal((await pipes.send(INIT).message()).result.protocolVersion, '2025-11-25');
  pipes.send(INITIALIZED);
  rig.core.on('tools/call', async (exchange) => {
    exchange.emit(notification('notifications/progress', '{"progress":1.0}', 'stateful'));
    const answered = await exchange.ask(request('roots/list', '1', null, 'stateful'));
    return ok(exchange, `{\n"roots":${answered.body.toString()}}`);
  });
  pipes.send(call('é', 'tools/call', { name: 't' }));
  assert.match(await pipes.line(), /"progress":1\.0/);
  const asked = await pipes.message();
  pipes.send(`{"jsonrpc":"2.0","id":"${asked.id}","result":{"n":12345678901234567890}}`);
  assert.equal(await pipes.line(), '{"jsonrpc":"2.0","id":"é","result":{ "roots":{"n":12345678901234567890}}}');
  const { sessionId } = rig.core.ran.at(-1)!.client;
  await until(() => rig.downstream.sessions.get(sessionId!)?.channel?.open === true);
  rig.downstream.deliver(sessionId!, notification('notifications/tools/list_changed', null, 'stateful'));
  assert.equal((await pipes.message()).method, 'notifications/tools/list_changed');
  pipes.send('{"jsonrpc":');
  assert.equal((await pipes.message()).error.code, -32700);
  pipes.ends.write.end();
  await handler.closed;
  assert.ok(rig.core.ended.includes(sessionId!));
});

test('check:E3 an unknown key is one error under the id of each request, and REFUSED', async () => {
  const { pipes, handler } = bridge(rig.listener.port, 5_000, 'key-of-no-agent');
  for (const text of [INIT, stateless('tools/list', {}, { id: 'é' }).body]) {
    const { id, error } = await pipes.send(text).message();
    assert.deepEqual([id, error.data.outcome], [JSON.parse(text).id, 'REFUSED']);
    assert.match(error.message, /refused this client: Unauthorized/);
  }
  // Nothing else was written in between.
  assert.equal((await pipes.send('{"jsonrpc":').message()).error.code, -32700);
  pipes.ends.write.end();
  await handler.closed;
});

test('check:B10 stateless requests get the headers that their pipe lacks; a cancel closes the stream', async () => {
  const { pipes, handler } = bridge(rig.listener.port);
  const tool =
    '{"name":"ü","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}';
  rig.core.on('tools/list', (exchange) => ok(exchange, `{"resultType":"complete","tools":[${tool}]}`));
  assert.equal((await pipes.send(stateless('tools/list').body).message()).result.tools.length, 1);
  rig.core.on('tools/call', (exchange) => ok(exchange, '{"x":1.0}'));
  pipes.send(stateless('tools/call', { name: 'ü', arguments: { r: 'eu' } }, { id: 7 }).body);
  assert.equal(await pipes.line(), '{"jsonrpc":"2.0","id":7,"result":{"x":1.0}}');
  assert.deepEqual({ ...rig.core.ran.at(-1)!.paramHeaders }, { 'mcp-param-region': 'eu' });
  pipes.send(stateless('a☃').body);
  assert.equal((await pipes.message()).error.code, -32600, 'no header can carry it');
  const begun = hanging('tools/call');
  pipes.send(stateless('tools/call', { name: 't' }, { id: 'slow' }).body);
  const running = await begun();
  pipes.send('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}');
  await until(() => running.cancelled !== null);
  pipes.ends.write.end();
  await handler.closed;
  assert.deepEqual(await pipes.rest(), [], 'a cancelled request gets no answer');
});

test('a cancelled request of a session gets no answer, whether its stream has begun or not', async () => {
  const { pipes, handler } = bridge(rig.listener.port);
  await pipes.send(INIT).message();
  const begun = hanging('tools/call');
  for (const id of [7, 8]) {
    pipes.send(call(id, 'tools/call', { name: 't' }));
    const running = await begun();
    if (id === 8) {
      running.emit(notification('notifications/progress', '{"progress":1}', 'stateful'));
      assert.equal((await pipes.message()).method, 'notifications/progress');
    }
    pipes.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id}}}`);
    await until(() => running.cancelled !== null);
  }
  pipes.ends.write.end();
  await handler.closed;
  assert.deepEqual(await pipes.rest(), []);
});

test('a request that was cancelled before it could be sent is not sent', async () => {
  const sent: string[] = [];
  const client: HttpClientPort = {
    request: ({ body }, handler) => {
      sent.push(body[0]!.toString());
      setImmediate(() => handler.error(new HttpFailure('refused', false, 'no gateway')));
      return { abort() {}, pause() {}, resume() {} };
    },
    close() {},
  };
  const clock = { ...systemClock, after: (ms: number, task: () => void) => systemClock.after(ms / 10, task) };
  const input = new PassThrough();
  const handler = new StdioBridge({ input, output: new PassThrough() }, { ...DEPS, client, clock, patienceMs: 100 });
  input.write(`${call(1, 'ping')}\n`);
  await until(() => sent.length === 1);
  input.end('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n');
  await handler.closed;
  assert.deepEqual(
    sent.filter((text) => text.includes('ping')),
    [call(1, 'ping')],
  );
});

test('at the end of the input, and when it drains, a bridge completes listens and closes', async () => {
  for (const ends of ['input', 'drain']) {
    const { pipes, handler } = bridge(rig.listener.port);
    const begun = hanging('subscriptions/listen');
    pipes.send(stateless('subscriptions/listen', { notifications: {} }, { id: 'ü' }).body);
    const running = await begun();
    running.emit(notification('notifications/subscriptions/acknowledged', '{"notifications":{}}', 'stateless'));
    assert.equal((await pipes.message()).method, 'notifications/subscriptions/acknowledged');
    if (ends === 'input') pipes.ends.write.end();
    else handler.drain();
    assert.deepEqual(await pipes.message(), {
      jsonrpc: '2.0',
      id: 'ü',
      result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 'ü' } },
    });
    await handler.closed;
    await until(() => running.cancelled !== null);
    assert.deepEqual(await pipes.rest(), []);
  }
});

test('a bridge that drains after the end of its input ends its session once', async () => {
  const [real, pipes] = [openHttpClient(`http://127.0.0.1:${rig.listener.port}`), new LinePipes()];
  let ended = 0;
  const client: HttpClientPort = {
    request: (sent, answer) => {
      if (sent.method === 'DELETE') ended++;
      return real.request(sent, answer);
    },
    close: () => real.close(),
  };
  const handler = new StdioBridge(pipes, { ...DEPS, client, headers: ['Authorization', 'Bearer key-of-ada'] });
  await pipes.send(INIT).message();
  pipes.ends.write.end();
  await new Promise((resolve) => setImmediate(resolve));
  handler.drain();
  await handler.closed;
  assert.equal(ended, 1);
});

test('a call that hangs holds the bridge for 30 s after the end of the input', async () => {
  const after: Clock['after'] = (ms, task) => systemClock.after(ms === 30_000 ? 20 : ms, task);
  const { pipes, handler } = bridge(rig.listener.port, 5_000, 'key-of-ada', { ...systemClock, after });
  const begun = hanging('tools/call');
  pipes.send(stateless('tools/call', { name: 't' }).body);
  await begun();
  pipes.ends.write.end();
  await handler.closed;
  assert.deepEqual(await pipes.rest(), []);
});

test('batches of a session of 2025-03-26 become one request each, and messages may name its revision', async () => {
  const { pipes, handler } = bridge(rig.listener.port);
  const meta = { _meta: { 'io.modelcontextprotocol/protocolVersion': '2025-03-26' } };
  await pipes.send(INIT.replace('2025-11-25', '2025-03-26')).message();
  pipes.send(`[${call(1, 'ping')},${INITIALIZED},${call('b', 'prompts/list', meta)}]`);
  const answers = [await pipes.message(), await pipes.message()].sort((a) => (a.id === 1 ? -1 : 1));
  assert.deepEqual(answers, [
    { jsonrpc: '2.0', id: 1, result: {} },
    { jsonrpc: '2.0', id: 'b', result: { method: 'prompts/list' } },
  ]);
  assert.equal((await pipes.send('[]').message()).error.code, -32600);
  pipes.ends.write.end();
  await handler.closed;
});

test('a call that is refused for its headers is sent again with those that the tool list asks for', async () => {
  const { pipes, handler } = bridge(rig.listener.port);
  const schema = '{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}';
  rig.core.on('tools/list', (exchange) => {
    const first = bodyString(exchange.request, 'cursor') === null;
    const page = first ? '"tools":[],"nextCursor":"zwölf"' : `"tools":[{"name":"t","inputSchema":${schema}}]`;
    return ok(exchange, `{"resultType":"complete",${page}}`);
  });
  let refusals = 0;
  rig.core.on('tools/call', (exchange) => {
    if (exchange.paramHeaders?.['mcp-param-region'] === 'eu') return ok(exchange, '{"x":1.0}');
    refusals++;
    return failure(new GatewayError('HEADER_MISMATCH', 'Header mismatch'));
  });
  pipes.send(stateless('tools/call', { name: 't', arguments: { r: 'eu' } }, { id: 7 }).body);
  assert.equal(await pipes.line(), '{"jsonrpc":"2.0","id":7,"result":{"x":1.0}}');
  assert.equal(refusals, 1);
  // The list asks for no further headers, so the error may be the answer of a server that has run the call.
  pipes.send(stateless('tools/call', { name: 'other', arguments: { r: 'eu' } }, { id: 8 }).body);
  assert.equal((await pipes.message()).error.code, -32020);
  assert.equal(refusals, 2);
  pipes.ends.write.end();
  await handler.closed;
});

test('check:B10 the client does not notice that the gateway was replaced and its session lost', async () => {
  const state = new StateFile({ path: ':memory:', clock: systemClock, logger: Logger.silent() });
  const core = new FakeCore();
  const options = { state, core, patienceMs: 50, agents: { ada: null } };
  const first = await DownstreamRig.start(options);
  const port = first.listener.port;
  const { pipes, handler } = bridge(port);
  let second: DownstreamRig | null = null;
  try {
    await pipes.send(INIT).message();
    pipes.send(INITIALIZED);
    await until(() => [...first.downstream.sessions.values()].some((session) => session.channel?.open === true));
    await first.close();
    // The bridge sees its connections end; a request written before that may have arrived, and is not sent twice.
    await new Promise((resolve) => setTimeout(resolve, 50));
    core.on('tools/call', (exchange) => ok(exchange, '{"n":1}'));
    pipes.send(call(1, 'tools/call', { name: 't' }));
    second = await DownstreamRig.start({ ...options, port });
    assert.deepEqual((await pipes.message()).result, { n: 1 }, 'sent when the gateway was there again');
    const before = core.ran.at(-1)!.client.sessionId!;
    second.downstream.sessions.end(second.downstream.sessions.get(before)!, 'lost');
    assert.deepEqual((await pipes.send(call(2, 'tools/call', { name: 't' })).message()).result, { n: 1 });
    assert.notEqual(core.ran.at(-1)!.client.sessionId, before);
    assert.equal(core.ran.at(-1)!.client.capabilities, '{"roots":{}}');
  } finally {
    pipes.ends.write.end();
    await handler.closed;
    await second?.close();
    state.close();
  }
});

test('a stream that breaks continues where it broke', async () => {
  const { pipes, handler } = bridge(rig.listener.port);
  await pipes.send(INIT).message();
  let running!: Exchange;
  let finish!: () => void;
  rig.core.on('tools/call', (exchange) => {
    running = exchange;
    return new Promise((resolve) => {
      finish = () => resolve(ok(exchange, '{"whole":true}'));
    });
  });
  pipes.send(call(1, 'tools/call', { name: 't' }));
  await until(() => running !== undefined);
  running.emit(notification('notifications/progress', '{"progress":1}', 'stateful'));
  assert.equal((await pipes.message()).params.progress, 1);
  for (const reply of rig.downstream.sessions.get(running.client.sessionId!)!.replies!.values()) {
    await reply.stream!.resume(new DeadSink(), 'none');
  }
  running.emit(notification('notifications/progress', '{"progress":2}', 'stateful'));
  assert.equal((await pipes.message()).params.progress, 2);
  finish();
  assert.deepEqual((await pipes.message()).result, { whole: true });
  pipes.ends.write.end();
  await handler.closed;
});

/** A connection that takes over a stream and is gone: the first connection sees only the end of the stream. */
class DeadSink {
  readonly closed = true;
  onDrain: (() => void) | null = null;
  onClose: (() => void) | null = null;
  event(): boolean {
    return true;
  }
  retry(): boolean {
    return true;
  }
  end(): void {}
}

test('the answer reports a missing gateway', async () => {
  const other = await DownstreamRig.start();
  const port = other.listener.port;
  await other.close();
  const { pipes, handler } = bridge(port, 100);
  const reply = await pipes.send(call(1, 'ping')).message();
  assert.equal(reply.id, 1);
  assert.equal(reply.error.code, 53001);
  pipes.ends.write.end();
  await handler.closed;
});

test('check:B10 a bridge that drains takes no further request, even when the client has read the answers', async () => {
  const { pipes, handler } = bridge(rig.listener.port);
  const text = 'x'.repeat(1024 * 1024);
  const running = new Map<string, () => void>();
  rig.core.on('tools/call', (exchange) => {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    running.set(exchange.request.id, () => resolve(ok(exchange, JSON.stringify({ text }))));
    return promise;
  });
  const send = (id: number) => pipes.send(stateless('tools/call', { name: 't' }, { id }).body);
  send(1);
  send(2);
  await until(() => running.size === 2);
  handler.drain();
  send(3);
  const read = once(pipes.output, 'drain');
  running.get('1')!();
  assert.equal((await pipes.message()).id, 1);
  await read;
  assert.equal(pipes.input.isPaused(), true);
  running.get('2')!();
  assert.equal((await pipes.message()).id, 2);
  await handler.closed;
  assert.equal(running.has('3'), false);
});

test('a line that has only begun when the bridge drains is not refused', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const handler = new StdioBridge({ input, output }, { ...DEPS, client: openHttpClient('http://127.0.0.1:1') });
  input.write('{"jsonrpc"');
  await new Promise((resolve) => setImmediate(resolve));
  handler.drain();
  await handler.closed;
  assert.equal(output.read(), null);
});

test('a request that fails by a defect does not keep the bridge from closing', async () => {
  const input = new PassThrough();
  let closed = 0;
  const client: HttpClientPort = {
    request: () => {
      throw new Error('a defect');
    },
    close: () => closed++,
  };
  const handler = new StdioBridge({ input, output: new PassThrough() }, { ...DEPS, client });
  input.end(call(1, 'ping'));
  await handler.closed;
  assert.equal(closed, 1);
});
