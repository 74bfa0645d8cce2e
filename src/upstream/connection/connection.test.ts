import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  Refusal,
  ScriptedServer,
  SILENCE,
  statefulScript,
  statefulServer,
  statelessScript,
  statelessServer,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { POOL_DEFAULTS } from '../../model/desired-state.ts';

const hanging = () => new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
const client = clientOf('session-1');
const counted = ({ links }: ScriptedServer, method: string) => links.reduce((sum, link) => sum + link.count(method), 0);

test('check:B4 S2.12 arguments and result pass byte for byte, under the gateway’s id on the wire', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const exotic = '{"name":"echo", "arguments":{"n":12345678901234567890,"f":1.0,"z":-0,"u":"\\u00e9"},"extra":[1E400]}';
  const outcome = await bench.call('a', toolCall(client, exotic, '"client-id"'));
  const sent = script.last.lines.findLast((line) => line.includes('tools/call'))!;
  assert.match(sent, /"params":\{"name":"echo", "arguments":\{"n":12345678901234567890,"f":1\.0,"z":-0/);
  assert.ok(!sent.includes('client-id'));
  assert.match(answerText(outcome), /"id":\d+,/);
});

test('a request over several lines reaches a pipe as one line, its strings unchanged', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  await bench.call('a', toolCall(client, '{\n  "name": "echo",\r\n  "arguments": {"t": "a\\nb"}\n}'));
  const line = script.last.lines.at(-1)!;
  assert.ok(!/[\r\n]/.test(line));
  assert.ok(line.includes('"a\\nb"'));
});

test('fault:F10 fault:F11 wrong ids are dropped and counted; of two answers the first counts', async () => {
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

test('fault:F10 a call that gets only wrong ids times out', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a', { timeoutMs: 500 }), script]);
  const outcome = bench.call('a', toolCall(client));
  await settled();
  script.last.deliver({ jsonrpc: '2.0', id: 999_999, result: {} });
  await bench.clock.advance(500);
  assert.equal(failureOf(await outcome).code, 'TIMEOUT');
});

test('check:F6 S4.13 fault:F05 at its deadline a call is TIMEOUT and UNKNOWN, the server is notified, and a late answer is dropped', async () => {
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

test('check:F6 progress extends the deadline, up to the upper limit of any call', async () => {
  const bench = new UpstreamBench();
  bench.set.limit({ maxProcesses: 10, maxTimeoutMs: 2_500, pool: POOL_DEFAULTS });
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

test('fault:F05 a call that the pipe had not taken when the gateway closes the connection goes to the next one', async () => {
  const bench = new UpstreamBench();
  const script = hanging();
  await bench.run([serverOf('a'), script]);
  const [taken, queued] = ['1', '2'].map((id) => bench.call('a', toolCall(client, '{"name":"echo"}', id)));
  await settled();
  const { last } = script;
  const close = last.close.bind(last);
  last.close = (how) => {
    last.lose(last.lastOf('tools/call').id as number, 'NOT_SENT');
    return close(how);
  };
  script.handlers['tools/call'] = () => ({});
  bench.set.upstream('a')!.closeConnection(bench.set.status('a')!.connections[0]!.key);
  assert.equal(failureOf(await taken!).outcome, 'UNKNOWN');
  answerText(await queued!);
  assert.equal(script.last.count('tools/call'), 1);
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
  const reported = script.last.lastOf('notifications/cancelled').params;
  assert.deepEqual(reported, { requestId: script.last.lastOf('tools/call').id, reason: 'the user changed their mind' });
  assert.equal(exchange.onCancel, null);
});

test('the gateway cancels a call at a stateless HTTP server by closing its stream, without a notification', async () => {
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

test('fault:F07 junk on a pipe is ignored; a bad answer on a request’s own stream is UPSTREAM_PROTOCOL', async () => {
  const bench = new UpstreamBench();
  const pipe = statefulScript();
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

test('a request of the other era is translated; one of the same era passes unchanged', async () => {
  const bench = new UpstreamBench();
  const old = statefulScript();
  const modern = statelessScript();
  await bench.run([serverOf('old'), old], [httpServerOf('modern'), modern]);
  const caps = '{"sampling":{}}';
  await bench.call('modern', toolCall(clientOf('s', caps), '{"name":"echo","arguments":{"a":1.0}}'));
  const [link] = modern.links;
  const sent = link!.lastOf('tools/call').params!;
  assert.deepEqual(sent._meta?.['io.modelcontextprotocol/clientCapabilities'], { sampling: {} });
  assert.match(link!.lines.at(-1)!, /"a":1\.0/);
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

for (const kind of [clientOf(null), clientOf('session-1', '{"roots":{}}')]) {
  test(`on a header mismatch the gateway lists the tools again for clients with ${kind.capabilities} and sends the call once more`, async () => {
    const bench = new UpstreamBench();
    const tool = (header: string) => ({
      name: 'echo',
      inputSchema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': header } } },
    });
    const script = new ScriptedServer(statelessServer([tool('Region')]));
    await bench.run([httpServerOf('a'), script]);
    for (const listed of [clientOf(null), kind]) await bench.set.catalog('a', listed, 1000);
    const lists = counted(script, 'tools/list');
    script.handlers['tools/list'] = () => ({ resultType: 'complete', tools: [tool('Area')] });
    const call = script.handlers['tools/call']!;
    script.handlers['tools/call'] = (params, link, id) =>
      link.headers.at(-1)!.includes('Mcp-Param-Area') ? call(params, link, id) : new Refusal(-32020, 'no match');
    const outcome = await bench.call('a', toolCall(kind, '{"name":"echo","arguments":{"region":"eu"}}'));
    assert.equal(counted(script, 'tools/list'), lists + 1);
    assert.match(answerText(outcome), /"content"/);
  });
}

for (const [what, server, handlers] of [
  ['of a stateful server', serverOf('a'), statefulServer()],
  ['on a pipe', serverOf('a'), statelessServer()],
  ['to headers that are still right', httpServerOf('a'), statelessServer()],
] as const) {
  test(`the error -32020 ${what} is the answer, since the call may have run, and the call is sent once`, async () => {
    const bench = new UpstreamBench();
    const refusal = new Refusal(-32020, 'its own meaning');
    const script = new ScriptedServer({ ...handlers, 'tools/call': () => refusal });
    await bench.run([server, script]);
    assert.match(answerText(await bench.call('a', toolCall(client))), /"code":-32020,"message":"its own meaning"/);
    assert.equal(counted(script, 'tools/call'), 1);
  });
}
