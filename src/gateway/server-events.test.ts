import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import { agent, client, endpointOf, GatewayBench, MCP } from '../../test/support/gateway-bench.ts';
import { tool } from '../../test/support/server-catalogs.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { answer, failure } from '../model/outcome.ts';
import { notification, request, result } from '../protocol/compose.ts';

const OFFERS = { a: { tools: [tool('x')] }, b: { tools: [tool('y')] } };
const CHANGED = notification('notifications/tools/list_changed', null, 'stateful');

function told(bench: GatewayBench): string[] {
  return bench.streams.delivered.map(({ sessionId, message }) => `${sessionId} ${message.method}`);
}

async function seen(bench: GatewayBench, sessionId: string, endpoint = MCP, more = {}): Promise<void> {
  await bench.run('ping', null, { client: client('stateful', { sessionId, ...more }), endpoint });
  const kind = endpoint.kind;
  const servers = kind === 'server' ? [endpoint.server] : Object.keys(OFFERS);
  bench.streams.sessions.push({ sessionId, endpoint: kind, servers });
}

test('S2.6 list_changed goes to the sessions whose merged list did change, once per burst', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'all');
  await seen(bench, 'only-b', MCP, { principal: agent('ann', 'b') });
  await seen(bench, 'single-a', endpointOf('a'));
  await seen(bench, 'single-b', endpointOf('b'));
  bench.relist('a', { tools: [tool('x2')] }, ['tools']);
  bench.relist('a', { tools: [tool('x3')] }, ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(told(bench), ['all notifications/tools/list_changed', 'single-a notifications/tools/list_changed']);
  // The same again changes nothing on the aggregate.
  bench.relist('a', { tools: [tool('x3')] }, ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(told(bench).slice(2), ['single-a notifications/tools/list_changed']);
});

test('a list of other clients’ capabilities is no matter of a session’s on a server’s own endpoint', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 's', endpointOf('a'));
  bench.gateway.catalogChanged('a', 'another fingerprint', ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(told(bench), []);
});

test('a session that was not heard of since the start is told as well', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.streams.sessions.push({ sessionId: 'restored', endpoint: 'aggregate', servers: ['a'] });
  bench.relist('a', OFFERS.a, ['resources', 'resourceTemplates']);
  await bench.clock.advance(100);
  assert.deepEqual(told(bench), ['restored notifications/resources/list_changed']);
});

test('a server’s own list_changed passes on its endpoint, is not doubled by ours, and is swallowed on the aggregate', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'single', endpointOf('a'));
  await seen(bench, 'all');
  bench.gateway.notification('a', 'single', CHANGED);
  bench.gateway.notification('a', 'all', CHANGED);
  bench.gateway.notification('a', null, CHANGED);
  assert.deepEqual(told(bench), ['single notifications/tools/list_changed']);
  bench.relist('a', { tools: [tool('new')] }, ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(told(bench).slice(1), ['all notifications/tools/list_changed']);
  await bench.clock.advance(5_000);
  bench.relist('a', { tools: [] }, ['tools']);
  await bench.clock.advance(100);
  assert.equal(told(bench).filter((line) => line.startsWith('single')).length, 2);
});

test('W2.9 notifications reach the session of the connection and are never broadcast', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'one');
  await seen(bench, 'two');
  await seen(bench, 'denied', MCP, { principal: agent('ann', 'b') });
  const message = notification('notifications/message', '{"level":"info","data":1.0}', 'stateful');
  bench.gateway.notification('a', 'one', message);
  bench.gateway.notification('a', null, message);
  bench.gateway.notification('a', 'denied', message);
  assert.deepEqual(
    bench.streams.delivered.map(({ sessionId, message: { bytes } }) => [sessionId, bytes]),
    [['one', message.bytes]],
  );
});

test('a server’s request is asked of the connection’s own session only', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'one');
  await seen(bench, 'denied', MCP, { principal: agent('ann', 'b') });
  const asked = request('sampling/createMessage', '7', '{"x":1.0}', 'stateful');
  bench.streams.reply = result('7', '{"role":"assistant"}', 'stateful');
  assert.equal((await bench.gateway.request('a', 'one', asked)).kind, 'result');
  assert.deepEqual(bench.streams.asked, [{ sessionId: 'one', message: asked }]);
  for (const sessionId of [null, 'denied']) {
    const refused = await bench.gateway.request('a', sessionId, asked);
    assert.equal(JSON.parse(refused.bytes.toString()).error.code, -32601);
  }
  assert.equal(bench.streams.asked.length, 1);
  bench.streams.reply = new GatewayError('MISSING_CAPABILITY', 'sampling was not declared');
  const undeclared = JSON.parse((await bench.gateway.request('a', 'one', asked)).bytes.toString());
  assert.deepEqual(undeclared, {
    jsonrpc: '2.0',
    id: 7,
    error: { code: -32601, message: 'sampling was not declared' },
  });
  bench.streams.reply = new GatewayError('TIMEOUT', 'nobody there');
  const late = JSON.parse((await bench.gateway.request('a', 'one', asked)).bytes.toString());
  assert.equal(late.error.code, 53003);
});

test('a session is told when a server lost what it kept for it', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.gateway.stateLost('a', 'one');
  const [{ sessionId, message }] = bench.streams.delivered as [{ sessionId: string; message: typeof CHANGED }];
  assert.equal(sessionId, 'one');
  const params = JSON.parse(message.body.toString());
  assert.deepEqual([params.level, params.logger], ['warning', 'trunkline']);
  assert.match(params.data, /'a' was restarted/);
});

test('a log level goes to servers with a connection at once, to others with the first call, and again after a restart', async () => {
  const logging = { tools: [tool('x')], capabilities: { tools: {}, logging: {} } };
  const bench = new GatewayBench({ here: logging, later: logging, mute: { tools: [tool('x')] } });
  bench.upstreams.owned.add('here').add('mute');
  const levels = () =>
    bench.upstreams.calls
      .filter(({ request: { method } }) => method === 'logging/setLevel')
      .map(({ server }) => server);
  const set = await bench.run('logging/setLevel', '{"level":"error"}');
  assert.equal(set.kind === 'answer' ? set.message.body.toString() : '', '{}');
  assert.deepEqual(levels(), ['here']);
  assert.equal(bench.upstreams.calls[0]!.request.body.toString(), '{"level":"error"}');
  await bench.run('tools/call', '{"name":"later__x"}');
  await bench.run('tools/call', '{"name":"later__x"}');
  await bench.run('tools/call', '{"name":"mute__x"}');
  assert.deepEqual(levels(), ['here', 'later']);
  bench.gateway.stateLost('here', 'session-1');
  assert.deepEqual(bench.streams.delivered, [], 'a warning is below the level that was asked for');
  await bench.run('tools/call', '{"name":"here__x"}');
  assert.deepEqual(levels(), ['here', 'later', 'here']);
  const wrong = await bench.run('logging/setLevel', '{"level":"loud"}');
  assert.ok(wrong.kind === 'failure' && wrong.error.code === 'INVALID_PARAMS');
});

test('a client’s notifications go to its own connections; the handshake’s go nowhere', async () => {
  const bench = new GatewayBench(OFFERS);
  const profile = client('stateful');
  const roots = notification('notifications/roots/list_changed', null, 'stateful');
  bench.upstreams.owned.add('b');
  bench.gateway.notify(MCP, roots, profile);
  bench.gateway.notify(MCP, notification('notifications/initialized', null, 'stateful'), profile);
  bench.gateway.notify(endpointOf('a'), roots, profile);
  bench.gateway.notify(endpointOf('a'), roots, client('stateful', { principal: agent('ann', 'b') }));
  assert.deepEqual(
    bench.upstreams.notified.map(({ server }) => server),
    ['b', 'a'],
  );
});

test('the end of a session releases what was its own', async () => {
  const bench = new GatewayBench({ r: { resources: ['{"uri":"u://1","name":"u"}'] } });
  bench.upstreams.respond = () => answer(result('1', '{}', 'stateful'));
  await bench.run('resources/subscribe', '{"uri":"u://1"}');
  bench.gateway.sessionEnded('session-1');
  assert.deepEqual(bench.upstreams.released, ['session-1']);
  bench.gateway.notification('r', null, notification('notifications/resources/updated', '{"uri":"u://1"}', 'stateful'));
  assert.deepEqual(bench.streams.delivered, []);
});

test('a subscription that the server refused is none', async () => {
  const bench = new GatewayBench({ r: { resources: ['{"uri":"u://1","name":"u"}'] } });
  bench.upstreams.respond = () => failure(new GatewayError('NOT_SENT', 'down'));
  await bench.run('resources/subscribe', '{"uri":"u://1"}');
  bench.gateway.notification('r', null, notification('notifications/resources/updated', '{"uri":"u://1"}', 'stateful'));
  await settled();
  assert.deepEqual(bench.streams.delivered, []);
});

test('S2.6 the aggregate’s hello merges what its members said, and waits for the first list of each but once', async () => {
  const bench = new GatewayBench({ ...OFFERS, c: null });
  const waiting = bench.gateway.hello(MCP, client('stateful'), 2_000);
  await settled();
  bench.upstreams.listed('c', { prompts: ['{"name":"p"}'], instructions: 'Say p.' });
  const hello = await waiting;
  assert.ok(!(hello instanceof GatewayError));
  assert.deepEqual(JSON.parse(hello.serverInfo), { name: 'trunkline', title: 'Trunkline', version: '0' });
  assert.deepEqual(JSON.parse(hello.capabilities), { tools: { listChanged: true }, prompts: { listChanged: true } });
  assert.equal(hello.instructions, '# c\n\nSay p.');
  assert.equal(hello.hello, null);
});
