import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import {
  Refusal,
  ScriptedServer,
  SILENCE,
  statefulServer,
  statelessServer,
} from '../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  TestExchange,
  toolCall,
  UpstreamBench,
} from '../../test/support/upstream-bench.ts';
import { request, result } from '../protocol/compose.ts';

const stateful = () => new ScriptedServer(statefulServer());
const hanging = () => new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
const client = clientOf('session-1');

test('check:B4 S2.12 arguments and result pass byte for byte, the id is ours and comes back as ours', async () => {
  const bench = new UpstreamBench();
  const script = stateful();
  await bench.run([serverOf('a'), script]);
  const exotic = '{"name":"echo", "arguments":{"n":12345678901234567890,"f":1.0,"z":-0,"u":"\\u00e9"},"extra":[1E400]}';
  const outcome = await bench.call('a', toolCall(client, exotic, '"client-id"'));
  const sent = script.last.lines.findLast((line) => line.includes('tools/call'))!;
  assert.match(sent, /"params":\{"name":"echo", "arguments":\{"n":12345678901234567890,"f":1\.0,"z":-0/);
  assert.ok(!sent.includes('client-id'));
  assert.match(answerText(outcome), /"id":\d+,/);
});

test('a request over several lines reaches a pipe as one, its strings untouched', async () => {
  const bench = new UpstreamBench();
  const script = stateful();
  await bench.run([serverOf('a'), script]);
  await bench.call('a', toolCall(client, '{\n  "name": "echo",\r\n  "arguments": {"t": "a\\nb"}\n}'));
  const line = script.last.lines.at(-1)!;
  assert.ok(!/[\r\n]/.test(line));
  assert.ok(line.includes('"a\\nb"'));
});

test('fault:F10 fault:F11 wrong ids are dropped and counted, of two answers the first counts', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  const id = script.last.lastOf('tools/call').id as number;
  for (const wrong of [id + 77, `"${id}"`, `${id}.0`, `0${id}`]) {
    script.last.deliver(`{"jsonrpc":"2.0","id":${wrong},"result":{"wrong":true}}`);
  }
  script.last.respond(id, { first: true });
  script.last.respond(id, { second: true });
  assert.match(answerText(await outcome), /"first":true/);
  assert.ok(bench.dropped() >= 5);
});

test('fault:F10 a call that only ever gets wrong ids times out', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a', { timeoutMs: 500 }), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  script.last.deliver({ jsonrpc: '2.0', id: 999_999, result: {} });
  await bench.clock.advance(500);
  assert.equal(failureOf(await outcome).code, 'TIMEOUT');
});

test('check:F6 S4.13 fault:F05 at its deadline a call is TIMEOUT and UNKNOWN, the server is told, a late answer is dropped', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a', { timeoutMs: 1000, toolTimeoutMs: new Map([['slow', 5000]]) }), script]);
  const quick = bench.call('a', toolCall(client));
  const slow = bench.call('a', toolCall(client, '{"name":"slow"}', '2'));
  await settled();
  const first = script.last.seen.find((seen) => seen.method === 'tools/call')!;
  await bench.clock.advance(999);
  assert.equal(script.last.count('notifications/cancelled'), 0);
  await bench.clock.advance(1);
  const error = failureOf(await quick);
  assert.equal(error.code, 'TIMEOUT');
  assert.deepEqual([error.data.outcome, error.data.sent, error.data.server], ['UNKNOWN', true, 'a']);
  assert.equal(script.last.lastOf('notifications/cancelled').params?.['requestId'], first.id);
  const dropped = bench.dropped();
  script.last.respond(first.id as number, {});
  assert.equal(bench.dropped(), dropped + 1);
  await bench.clock.advance(4000);
  assert.equal(failureOf(await slow).code, 'TIMEOUT');
});

test('check:F6 progress moves the deadline, up to the upper bound of any call', async () => {
  const bench = new UpstreamBench();
  bench.set.limit({ maxProcesses: 10, maxTimeoutMs: 2_500 });
  const script = hanging();
  await bench.run([serverOf('a', { timeoutMs: 1000 }), script]);
  const outcome = bench.call('a', toolCall(client, '{"name":"echo","_meta":{"progressToken":1}}'));
  await settled();
  const token = script.last.lastOf('tools/call').id;
  for (let i = 0; i < 4; i++) {
    await bench.clock.advance(600);
    script.last.deliver({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: token, progress: i },
    });
  }
  assert.equal(script.last.count('notifications/cancelled'), 0);
  await bench.clock.advance(99);
  assert.equal(script.last.count('notifications/cancelled'), 0);
  await bench.clock.advance(1);
  assert.equal(failureOf(await outcome).code, 'TIMEOUT');
});

test('fault:F05 after three deadlines in a row a server that answers no ping is replaced', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  script.handlers['ping'] = () => SILENCE;
  await bench.run([serverOf('a', { timeoutMs: 1000 }), script]);
  const outcomes = ['1', '2', '3'].map((id) => bench.call('a', toolCall(client, '{"name":"echo"}', id)));
  await settled();
  const first = script.last;
  await bench.clock.advance(1000);
  await Promise.all(outcomes);
  assert.equal(first.count('ping'), 1);
  await bench.clock.advance(20_000);
  assert.equal(first.state, 'closed');
  assert.equal(script.live.length, 1);
});

test('fault:F05 a slow server that answers a ping keeps its process', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a', { timeoutMs: 1000 }), script]);
  const outcomes = ['1', '2', '3'].map((id) => bench.call('a', toolCall(client, '{"name":"echo"}', id)));
  await settled();
  await bench.clock.advance(1000);
  await Promise.all(outcomes);
  await bench.clock.advance(20_000);
  assert.equal(script.links.length, 1);
  assert.equal(script.last.state, 'open');
});

test('fault:F17 a cancelled call is cancelled at the server once, and ends CANCELLED', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const exchange = toolCall(client);
  const outcome = bench.call('a', exchange);
  await settled();
  exchange.cancel('the user changed their mind');
  assert.equal(failureOf(await outcome).code, 'CANCELLED');
  const told = script.last.lastOf('notifications/cancelled').params;
  assert.deepEqual(told, { requestId: script.last.lastOf('tools/call').id, reason: 'the user changed their mind' });
  assert.equal(exchange.onCancel, null);
});

test('a stateless HTTP server is cancelled by giving up its stream, without a notification', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statelessServer(), 'tools/call': () => SILENCE });
  await bench.run([httpServerOf('a'), script]);
  const exchange = toolCall(clientOf(null));
  const outcome = bench.call('a', exchange);
  await settled();
  exchange.cancel('gone');
  await outcome;
  assert.equal(script.last.count('notifications/cancelled'), 0);
  assert.deepEqual(script.last.abandoned, [script.last.lastOf('tools/call').id]);
});

test('progress tokens are ours on the wire and the client’s on the way back, to the digit', async () => {
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

test('progress of a task comes after the answer that began it, under the client’s token, to its session', async () => {
  const bench = new UpstreamBench();
  const script = stateful();
  await bench.run([serverOf('a'), script]);
  const params = '{"name":"echo","task":{"ttl":1000},"_meta":{"progressToken":"t"}}';
  await bench.call('a', toolCall(client, params));
  const { id } = script.last.lastOf('tools/call');
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: id, progress: 1 } });
  const [told] = bench.events.notifications;
  assert.deepEqual([told?.sessionId, told?.method], ['session-1', 'notifications/progress']);
  assert.match(told!.bytes, /"progressToken":"t"/);
});

test('a token hidden behind an escape is replaced too, and progress nobody asked for reaches nobody', async () => {
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

test('check:C4 a stateful server’s request goes to the session whose connection it came on, and to no other', async () => {
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

test('check:C4 on a shared stateful connection the server’s own requests are refused, its ping is answered', async () => {
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

test('outside any call a session’s server asks the session, and a client that cannot be asked is one without the method', async () => {
  const bench = new UpstreamBench();
  const script = stateful();
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

test('fault:F12 unasked answers are dropped, requests of a stateless server refused', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statelessServer());
  await bench.run([serverOf('a'), script]);
  await bench.call('a', toolCall(clientOf(null)));
  script.last.deliver({ jsonrpc: '2.0', id: 12_345, result: {} });
  script.last.deliver({ jsonrpc: '2.0', id: 'x', method: 'sampling/createMessage', params: {} });
  await settled();
  assert.equal((script.last.seen.at(-1)!.error as { code: number }).code, -32601);
  assert.equal(bench.dropped(), 2);
});

test('a log message goes to the newest call of the session; without one to the session', async () => {
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

test('what comes on a request’s own stream belongs to that request', async () => {
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
  // Another request's answer on this stream is no answer to either.
  script.last.deliver({ jsonrpc: '2.0', id: second!.id, result: {} }, first!.id as number);
  assert.equal(bench.dropped(), 1);
  // An error without an id is the server's word on the request of the stream.
  script.last.deliver({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'no' } }, first!.id as number);
  assert.match(answerText(await outcomes[0]!), /"no"/);
  script.last.respond(second!.id as number, {});
  await outcomes[1];
});

test('fault:F07 junk on a pipe costs nothing; a bad answer on a request’s own stream is UPSTREAM_PROTOCOL', async () => {
  const bench = new UpstreamBench();
  const pipe = stateful();
  const http = hanging();
  await bench.run([serverOf('a'), pipe], [httpServerOf('b'), http]);
  await bench.call('a', toolCall(client));
  pipe.last.deliver('{"not": "json-rpc"}');
  assert.equal((await bench.call('a', toolCall(client))).kind, 'answer');
  const outcome = bench.call('b', toolCall(client));
  await settled();
  http.last.deliver('{"half": ', http.last.lastOf('tools/call').id as number);
  const error = failureOf(await outcome);
  assert.deepEqual([error.code, error.outcome], ['UPSTREAM_PROTOCOL', 'UNKNOWN']);
});

test('subscriptions are named by our id on the wire and by the client’s id to the client', async () => {
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

test('a request in the other era is translated; the same era passes as it is', async () => {
  const bench = new UpstreamBench();
  const old = stateful();
  const modern = new ScriptedServer(statelessServer());
  await bench.run([serverOf('old'), old], [httpServerOf('modern'), modern]);
  const caps = '{"sampling":{}}';
  await bench.call('modern', toolCall(clientOf('s', caps), '{"name":"echo","arguments":{"a":1.0}}'));
  const sent = modern.last.lastOf('tools/call').params!;
  assert.deepEqual(sent._meta?.['io.modelcontextprotocol/clientCapabilities'], { sampling: {} });
  assert.match(modern.last.lines.at(-1)!, /"a":1\.0/);
  const meta =
    '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"k":1}';
  await bench.call('old', toolCall(clientOf(null), `{"name":"echo","_meta":${meta}}`));
  assert.deepEqual(old.last.lastOf('tools/call').params?._meta, { k: 1 });
});

test('stateless HTTP servers get the mirrored headers, from their own tool definition', async () => {
  const bench = new UpstreamBench();
  const schema = { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } };
  const script = new ScriptedServer(statelessServer([{ name: 'echo', inputSchema: schema }]));
  await bench.run([httpServerOf('a'), script]);
  const modern = clientOf(null);
  await bench.set.catalog('a', modern, 1000);
  await bench.call('a', toolCall(modern, '{"name":"echo","arguments":{"region":"eu","x":1}}'));
  assert.deepEqual(script.last.headers.at(-1), [
    'Mcp-Method',
    'tools/call',
    'Mcp-Name',
    'echo',
    'Mcp-Param-Region',
    'eu',
  ]);
});

test('on a header mismatch the tools are listed anew and the call is sent once more', async () => {
  const bench = new UpstreamBench();
  const tool = (header: string) => ({
    name: 'echo',
    inputSchema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': header } } },
  });
  const script = new ScriptedServer(statelessServer([tool('Region')]));
  await bench.run([httpServerOf('a'), script]);
  const modern = clientOf(null);
  await bench.set.catalog('a', modern, 1000);
  const lists = script.last.count('tools/list');
  script.handlers['tools/list'] = () => ({ resultType: 'complete', tools: [tool('Area')] });
  const call = script.handlers['tools/call']!;
  script.handlers['tools/call'] = (params, link, id) =>
    link.headers.at(-1)!.includes('Mcp-Param-Area') ? call(params, link, id) : new Refusal(-32020, 'no match');
  const outcome = await bench.call('a', toolCall(modern, '{"name":"echo","arguments":{"region":"eu"}}'));
  assert.equal(script.last.count('tools/list'), lists + 1);
  assert.match(answerText(outcome), /"content"/);
});
