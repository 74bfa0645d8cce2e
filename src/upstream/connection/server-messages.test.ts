import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import {
  ScriptedServer,
  SILENCE,
  statefulScript,
  statefulServer,
  statelessScript,
  statelessServer,
} from '../../../test/support/scripted-server.ts';
import { SpanLog } from '../../../test/support/span-log.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  TestExchange,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { systemRandom } from '../../model/random.ts';
import { request, result } from '../../protocol/compose.ts';
import { Tracer } from '../../telemetry/tracing.ts';

const hanging = () => new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
const client = clientOf('session-1');

test('the wire has the gateway’s progress tokens; the client gets its own back, to the digit', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const exchange = toolCall(client, '{"name":"echo","_meta":{"progressToken":9007199254740993,"x":1.0}}');
  const outcome = bench.call('a', exchange);
  await settled();
  const sent = script.last.lastOf('tools/call');
  const token = sent.params?._meta?.['progressToken'];
  assert.equal(token, sent.id);
  assert.match(script.last.lines.at(-1)!, /"x":1\.0/);
  const params = `{"progressToken":${token},"progress":0.50}`;
  script.last.deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  script.last.respond(sent.id as number, {});
  await outcome;
  assert.equal(exchange.emitted.length, 1);
  assert.match(exchange.emitted[0]!.bytes.toString(), /"progressToken":9007199254740993,"progress":0\.50/);
});

test('progress of a task after the answer that began it goes to its session, with the client’s token', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const params = '{"name":"echo","task":{"ttl":1000},"_meta":{"progressToken":"t"}}';
  await bench.call('a', toolCall(client, params));
  const { id } = script.last.lastOf('tools/call');
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: id, progress: 1 } });
  const [reported] = bench.events.notifications;
  assert.deepEqual([reported?.sessionId, reported?.method], ['session-1', 'notifications/progress']);
  assert.match(reported!.bytes, /"progressToken":"t"/);
  // A long token is not kept after the answer.
  await bench.call('a', toolCall(client, params.replace('"t"', `"${'t'.repeat(1024)}"`)));
  const { id: last } = script.last.lastOf('tools/call');
  script.last.deliver({
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: last, progress: 1 },
  });
  assert.equal(bench.events.notifications.length, 1);
});

test('a token hidden behind an escape is replaced too, and unrequested progress is dropped', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const hidden = toolCall(client, '{"name":"echo","_meta":{"progress\\u0054oken":"t"}}');
  const silent = toolCall(client, '{"name":"echo"}', '2');
  const outcomes = [bench.call('a', hidden), bench.call('a', silent)];
  await settled();
  const [first, second] = script.last.seen.filter((seen) => seen.method === 'tools/call');
  assert.equal(first!.params?._meta?.['progressToken'], first!.id);
  const progress = (token: unknown) =>
    script.last.deliver({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: token, progress: 1 },
    });
  progress(second!.id);
  progress('t');
  progress(first!.id);
  assert.equal(silent.emitted.length, 0);
  assert.equal(hidden.emitted.length, 1);
  script.last.respond(first!.id as number, {});
  script.last.respond(second!.id as number, {});
  await Promise.all(outcomes);
});

test('check:C4 a stateful server’s request goes only to the session whose connection it came on', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const one = toolCall(clientOf('one'));
  const two = toolCall(clientOf('two'));
  const outcomes = [bench.call('a', one), bench.call('a', two)];
  await settled();
  const [first, second] = script.live;
  one.answer = (asked) => Promise.resolve(result(asked.id, '{"roots":[{"uri":"file:///one"}]}', 'stateful'));
  first!.deliver({ jsonrpc: '2.0', id: 'srv-1', method: 'roots/list' });
  await settled();
  assert.deepEqual(first!.seen.at(-1), { jsonrpc: '2.0', id: 'srv-1', result: { roots: [{ uri: 'file:///one' }] } });
  assert.equal(one.asked.length, 1);
  assert.equal(two.asked.length, 0);
  first!.respond(first!.lastOf('tools/call').id as number, {});
  second!.respond(second!.lastOf('tools/call').id as number, {});
  await Promise.all(outcomes);
});

test('a request of a server has a span under that of its call, and the client gets its traceparent', async () => {
  const [clock, spans] = [new FakeClock(), new SpanLog()];
  const bench = new UpstreamBench({ clock, tracer: new Tracer(spans, clock, systemRandom) });
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const exchange = toolCall(client, `{"name":"echo","_meta":{"traceparent":"${parent}"}}`);
  exchange.trace = parent;
  exchange.answer = (asked) => Promise.resolve(result(asked.id, '{"roots":[]}', 'stateful'));
  const outcome = bench.call('a', exchange);
  await settled();
  script.last.deliver({ jsonrpc: '2.0', id: 'srv-1', method: 'roots/list' });
  await settled();
  assert.deepEqual(script.last.seen.at(-1), { jsonrpc: '2.0', id: 'srv-1', result: { roots: [] } });
  exchange.answer = () => Promise.reject(new GatewayError('MISSING_CAPABILITY', 'not declared'));
  script.last.deliver({ jsonrpc: '2.0', id: 'srv-2', method: 'elicitation/create', params: { message: 'who?' } });
  await settled();
  script.last.respond(script.last.lastOf('tools/call').id as number, {});
  await outcome;
  const call = spans.one('tools/call echo', 'client');
  const asked = spans.one('roots/list', 'server');
  assert.deepEqual([asked.traceId, asked.parentId], [call.traceId, call.spanId]);
  assert.deepEqual(asked.attributes, { 'mcp.method.name': 'roots/list', 'trunkline.server': 'a' });
  const trace = `"traceparent":"00-${asked.traceId}-${asked.spanId}-01"`;
  assert.ok(exchange.asked[0]!.bytes.toString().includes(trace));
  assert.equal(spans.one('elicitation/create', 'server').attributes['error.type'], '-32021');
});

test('check:C4 a request on a pipe probably belongs to the newest call; if it is cancelled after that call, its session gets the cancellation', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const exchange = toolCall(client);
  exchange.answer = () => new Promise(() => {});
  const outcome = bench.call('a', exchange);
  await settled();
  script.last.deliver({ jsonrpc: '2.0', id: 'srv-1', method: 'roots/list' });
  await settled();
  assert.deepEqual(exchange.likely, [true]);
  const off = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'srv-1' } };
  script.last.deliver(off);
  assert.equal(exchange.emitted.length, 1);
  script.last.respond(script.last.lastOf('tools/call').id as number, {});
  await outcome;
  script.last.deliver(off);
  const [reported] = bench.events.notifications;
  assert.deepEqual([reported?.sessionId, reported?.method], ['session-1', 'notifications/cancelled']);
  assert.equal(exchange.emitted.length, 1);
});

test('check:C4 on a shared stateful connection the server’s requests are refused and its ping is answered', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a', { isolation: 'shared' }), script]);
  const one = toolCall(clientOf('one', '{"roots":{}}'));
  const outcome = bench.call('a', one);
  await settled();
  script.last.deliver({ jsonrpc: '2.0', id: 1, method: 'sampling/createMessage', params: {} });
  script.last.deliver({ jsonrpc: '2.0', id: 2, method: 'ping' });
  await settled();
  const answers = script.last.seen.filter((seen) => seen.method === undefined);
  assert.equal((answers[0]!.error as { code: number }).code, -32601);
  assert.deepEqual(answers[1], { jsonrpc: '2.0', id: 2, result: {} });
  assert.equal(one.asked.length, 0);
  assert.equal(bench.events.requests.length, 0);
  assert.deepEqual(script.last.lastOf('initialize').params?.['capabilities'], {});
  script.last.respond(script.last.lastOf('tools/call').id as number, {});
  await outcome;
});

test('a server’s request outside of calls goes to its session; if the client cannot be asked, the answer is -32601', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  await bench.call('a', toolCall(client));
  script.last.deliver({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: {} });
  await settled();
  assert.deepEqual(
    bench.events.requests.map(({ sessionId }) => sessionId),
    ['session-1'],
  );
  assert.equal((script.last.seen.at(-1)!.error as { code: number }).code, -32601);
});

test('fault:F12 unrequested answers are dropped, and requests of a stateless server are refused', async () => {
  const bench = new UpstreamBench();
  const script = statelessScript();
  await bench.run([serverOf('a'), script]);
  await bench.call('a', toolCall(clientOf(null)));
  script.last.deliver({ jsonrpc: '2.0', id: 12_345, result: {} });
  script.last.deliver({ jsonrpc: '2.0', id: 'x', method: 'sampling/createMessage', params: {} });
  await settled();
  assert.equal((script.last.seen.at(-1)!.error as { code: number }).code, -32601);
  assert.equal(bench.dropped(), 2);
});

test('a log message goes to the newest call of the session, or without one to the session', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const calls = ['1', '2'].map((id) => toolCall(client, '{"name":"echo"}', id));
  const outcomes = calls.map((exchange) => bench.call('a', exchange));
  await settled();
  const log = { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 1 } };
  script.last.deliver(log);
  assert.deepEqual(
    calls.map((exchange) => exchange.emitted.length),
    [0, 1],
  );
  for (const seen of script.last.seen) if (seen.method === 'tools/call') script.last.respond(seen.id as number, {});
  await Promise.all(outcomes);
  script.last.deliver(log);
  assert.deepEqual(
    bench.events.notifications.map(({ sessionId, method }) => [sessionId, method]),
    [['session-1', 'notifications/message']],
  );
});

test('messages on a request’s own stream belong to that request', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([httpServerOf('a'), script]);
  const calls = ['1', '2'].map((id) => toolCall(client, '{"name":"echo"}', id));
  const outcomes = calls.map((exchange) => bench.call('a', exchange));
  await settled();
  const [first, second] = script.last.seen.filter((seen) => seen.method === 'tools/call');
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/message', params: {} }, first!.id as number);
  assert.deepEqual(
    calls.map((exchange) => exchange.emitted.length),
    [1, 0],
  );
  // An answer to another request on this stream answers neither, and fails the request of the stream.
  script.last.deliver({ jsonrpc: '2.0', id: second!.id, result: {} }, first!.id as number);
  assert.equal(bench.dropped(), 1);
  assert.equal(failureOf(await outcomes[0]!).code, 'UPSTREAM_PROTOCOL');
  // An error without an id answers the request of the stream.
  script.last.deliver({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'no' } }, second!.id as number);
  assert.match(answerText(await outcomes[1]!), /"no"/);
});

test('a subscription has the gateway’s id on the wire and the client’s id for the client', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statelessServer(), 'subscriptions/listen': () => SILENCE });
  await bench.run([serverOf('a', { timeoutMs: 1000 }), script]);
  const stateless = clientOf(null);
  const listen = new TestExchange(
    stateless,
    request('subscriptions/listen', '"my-listen"', '{"notifications":{}}', 'stateless'),
  );
  const outcome = bench.call('a', listen);
  await settled();
  const id = script.last.lastOf('subscriptions/listen').id as number;
  const meta = { 'io.modelcontextprotocol/subscriptionId': id };
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params: { _meta: meta } });
  assert.match(listen.emitted[0]!.bytes.toString(), /"io.modelcontextprotocol\/subscriptionId":"my-listen"/);
  // A stream has no deadline.
  await bench.clock.advance(100_000);
  script.last.respond(id, { resultType: 'complete', _meta: meta });
  assert.match(answerText(await outcome), /"io.modelcontextprotocol\/subscriptionId":"my-listen"/);
});

test('an input request of a task goes to the tasks/result that waits for that task, not to another call', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({
    ...statefulServer(),
    'tools/call': () => SILENCE,
    'tasks/result': () => SILENCE,
  });
  await bench.run([serverOf('a'), script]);
  const waiting = (id: string) =>
    new TestExchange(client, request('tasks/result', `"${id}"`, `{"taskId":"${id}"}`, 'stateful'));
  const [first, second] = [waiting('t-1'), waiting('t-2')];
  const newest = toolCall(client, '{"name":"echo"}', '9');
  const outcomes = [first, second, newest].map((exchange) => bench.call('a', exchange));
  await settled();
  first.answer = (asked) => Promise.resolve(result(asked.id, '{"action":"accept"}', 'stateful'));
  const _meta = { 'io.modelcontextprotocol/related-task': { taskId: 't-1' } };
  script.last.deliver({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: { message: 'who?', _meta } });
  await settled();
  assert.deepEqual([first.asked.length, second.asked.length, newest.asked.length], [1, 0, 0]);
  for (const exchange of [first, second, newest]) exchange.onCancel?.('enough');
  await Promise.all(outcomes);
});

test('progress of a task that the call itself waits for goes to the call, also after the answer', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const exchange = toolCall(client, '{"name":"echo","task":{},"_meta":{"progressToken":"t"}}');
  await bench.call('a', Object.assign(exchange, { waitsForTask: true }));
  const { id } = script.last.lastOf('tools/call');
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: id, progress: 1 } });
  assert.deepEqual(bench.events.notifications, []);
  assert.match(exchange.emitted.at(-1)!.bytes.toString(), /"progressToken":"t"/);
});

test('an input request without a call is cancelled with its session when its connection ends', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(client)));
  bench.events.answer = () => new Promise(() => {});
  script.last.deliver({ jsonrpc: '2.0', id: 7, method: 'ping' });
  script.last.deliver({ jsonrpc: '2.0', id: 8, method: 'roots/list' });
  await settled();
  assert.equal(bench.events.requests.length, 1);
  script.last.end();
  const [reported, ...others] = bench.events.notifications;
  assert.deepEqual([reported?.sessionId, reported?.method, others], ['session-1', 'notifications/cancelled', []]);
  assert.match(reported!.bytes, /"requestId":8,/);
});

test('requests of a server that has no client yet wait, up to 1 MiB in all; the others are refused', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const asking = clientOf('s', '{"roots":{}}');
  await bench.set.catalog('a', asking, 1000);
  const padding = 'x'.repeat(400_000);
  for (const id of [7, 8, 9]) script.last.deliver({ jsonrpc: '2.0', id, method: 'roots/list', params: { padding } });
  await settled();
  const answered = () => script.last.seen.filter(({ method, id }) => method === undefined && Number(id) >= 7);
  assert.deepEqual(
    answered().map(({ id, error }) => [id, (error as { code: number } | undefined)?.code]),
    [[9, -32601]],
  );
  bench.events.answer = (asked) => Promise.resolve(result(asked.id, '{"roots":[]}', 'stateful'));
  const call = toolCall(asking);
  call.answer = bench.events.answer;
  answerText(await bench.call('a', call));
  await bench.clock.advance(1_000);
  assert.deepEqual(
    answered().map(({ id }) => id),
    [9, 7, 8],
  );
});
