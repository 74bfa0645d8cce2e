import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import { agent, client, endpointOf, GatewayBench, MCP, serverNamed } from '../../test/support/gateway-bench.ts';
import { type Advertisement, tool } from '../../test/support/server-catalogs.ts';
import { ANONYMOUS } from '../model/client-profile.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { answer, failure } from '../model/outcome.ts';
import { notification, request, result } from '../protocol/compose.ts';
import { Metrics } from '../telemetry/metrics.ts';

const OFFERS = { a: { tools: [tool('x')] }, b: { tools: [tool('y')] } };
const CHANGED = notification('notifications/tools/list_changed', null, 'stateful');

function reported(bench: GatewayBench): string[] {
  return bench.streams.delivered.map(({ sessionId, message }) => `${sessionId} ${message.method}`);
}

async function seen(bench: GatewayBench, sessionId: string, endpoint = MCP, more = {}): Promise<void> {
  await bench.run('ping', null, { client: client('stateful', { sessionId, ...more }), endpoint });
}

test('S2.6 list_changed goes to the sessions whose merged list changed, once per burst', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'all');
  await seen(bench, 'only-b', MCP, { principal: agent('ann', 'b') });
  await seen(bench, 'single-a', endpointOf('a'));
  await seen(bench, 'single-b', endpointOf('b'));
  bench.relist('a', { tools: [tool('x2')] }, ['tools']);
  bench.relist('a', { tools: [tool('x3')] }, ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench), [
    'all notifications/tools/list_changed',
    'single-a notifications/tools/list_changed',
  ]);
  // The same again changes nothing on the aggregate.
  bench.relist('a', { tools: [tool('x3')] }, ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench).slice(2), ['single-a notifications/tools/list_changed']);
});

test('S2.6 a list that a session got while a server came up is not reported to it as changed', async () => {
  const bench = new GatewayBench({ ...OFFERS, late: null });
  const session = client('stateful', { sessionId: 's' });
  await seen(bench, 's');
  const listing = bench.run('tools/list', null, { client: session });
  await settled();
  const advertisement = { tools: [tool('z')], prompts: ['{"name":"p"}'] };
  bench.upstreams.listed('late', advertisement);
  bench.gateway.catalogChanged('late', '{}', ['tools', 'prompts']);
  const listed = await listing;
  assert.ok(listed.kind === 'answer' && listed.message.body.includes('late__z'));
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench), ['s notifications/prompts/list_changed']);
  // A change after the answer is notified, even if the list returns to one announced before.
  await bench.run('tools/list', null, { client: session });
  bench.relist('late', { ...advertisement, tools: [tool('other')] }, ['tools']);
  await bench.run('tools/list', null, { client: session });
  bench.relist('late', advertisement, ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench).slice(1), ['s notifications/tools/list_changed']);
});

test('a list for other clients’ capabilities does not concern a session on a server’s own endpoint', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 's', endpointOf('a'));
  bench.gateway.catalogChanged('a', 'another fingerprint', ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench), []);
});

test('a session that was silent since the start is notified as well', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.streams.sessions.push({ sessionId: 'restored', endpoint: 'aggregate', servers: ['a'] });
  bench.relist('a', OFFERS.a, ['resources', 'resourceTemplates']);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench), ['restored notifications/resources/list_changed']);
});

test('a server’s own list_changed passes on its endpoint once, and not on the aggregate', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'single', endpointOf('a'));
  await seen(bench, 'all');
  bench.gateway.notification('a', 'single', CHANGED);
  bench.gateway.notification('a', 'all', CHANGED);
  bench.gateway.notification('a', null, CHANGED);
  assert.deepEqual(reported(bench), ['single notifications/tools/list_changed']);
  bench.relist('a', { tools: [tool('new')] }, ['tools']);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench).slice(1), ['all notifications/tools/list_changed']);
  await bench.clock.advance(5_000);
  bench.relist('a', { tools: [] }, ['tools']);
  await bench.clock.advance(100);
  assert.equal(reported(bench).filter((line) => line.startsWith('single')).length, 2);
});

test('S2.6 a notification from a session’s process suppresses neither changes at its end nor decisions of the gateway', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'single', endpointOf('a'));
  bench.upstreams.owned.add('a');
  bench.gateway.notification('a', 'single', CHANGED);
  await bench.clock.advance(1_000);
  bench.gateway.stateLost('a', 'single', 'restarted');
  bench.gateway.catalogChanged('a', '{}', ['tools'], 'single');
  await bench.clock.advance(100);
  const changed = 'single notifications/tools/list_changed';
  assert.deepEqual(
    reported(bench).filter((line) => line === changed),
    [changed, changed],
  );
  bench.gateway.notification('a', 'single', CHANGED);
  bench.gateway.desiredChanged(() => ANONYMOUS, ['a']);
  await bench.clock.advance(100);
  assert.equal(reported(bench).filter((line) => line === changed).length, 4);
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

test('a server’s request goes only to the session of its connection', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'one', MCP, { capabilities: '{"sampling":{}}' });
  await seen(bench, 'denied', MCP, { principal: agent('ann', 'b') });
  const asked = request('sampling/createMessage', '7', '{"x":1.0}', 'stateful');
  bench.streams.reply = '{"role":"assistant"}';
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

test('a session is notified when a server lost its state', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'one');
  bench.gateway.stateLost('a', 'one', 'restarted');
  const [{ sessionId, message }] = bench.streams.delivered as [{ sessionId: string; message: typeof CHANGED }];
  assert.equal(sessionId, 'one');
  const params = JSON.parse(message.body.toString());
  assert.deepEqual([params.level, params.logger], ['warning', 'trunkline']);
  assert.match(params.data, /'a' was restarted/);
  bench.gateway.stateLost('a', 'one', 'idle');
  bench.gateway.stateLost('a', 'one', 'errors');
  const [idle, errors] = bench.streams.delivered
    .slice(1)
    .map(({ message }) => JSON.parse(message.body.toString()).data);
  assert.match(idle, /'a' was ended because it was not used for long; what it kept for this session is lost/);
  assert.match(errors, /'a' was ended because it failed too often/);
  for (const cause of ['room', 'removed'] as const) bench.gateway.stateLost('a', 'one', cause);
  const [room, removed] = bench.streams.delivered
    .slice(3)
    .map(({ message }) => JSON.parse(message.body.toString()).data);
  assert.match(room, /'a' was idle, and was ended to make room for others at the limit of processes; what it kept/);
  assert.match(removed, /'a' was removed; what it kept for this session is lost/);
});

test('check:B13 a log level goes at once to servers with a connection of the session, and starts no other', async () => {
  const logging = { tools: [tool('x')], capabilities: { tools: {}, logging: {} } };
  const bench = new GatewayBench({ here: logging, later: logging, mute: { tools: [tool('x')] } });
  bench.upstreams.owned.add('here').add('mute');
  const set = await bench.run('logging/setLevel', '{"level":"error"}');
  assert.equal(set.kind === 'answer' ? set.message.body.toString() : '', '{}');
  assert.deepEqual(
    bench.upstreams.calls.map(({ server, request: { method, body } }) => [server, method, body.toString()]),
    [['here', 'logging/setLevel', '{"level":"error"}']],
  );
  const wrong = await bench.run('logging/setLevel', '{"level":"loud"}');
  assert.ok(wrong.kind === 'failure' && wrong.error.code === 'INVALID_PARAMS');
});

test('check:B13 on a server’s endpoint the level passes if it concerns only this session, and is answered by the gateway otherwise', async () => {
  const logging = { tools: [tool('x')], capabilities: { tools: {}, logging: {} } };
  const young = { ...logging, era: 'stateless' } as const;
  const bench = new GatewayBench({ own: logging, shared: logging, young, mute: { tools: [tool('x')] } });
  bench.upstreams.owned.add('own');
  for (const server of ['own', 'shared', 'young', 'mute']) {
    const outcome = await bench.run('logging/setLevel', '{"level":"debug"}', { endpoint: endpointOf(server) });
    assert.equal(outcome.kind, 'answer', server);
  }
  // A server without logging answers with the error itself.
  assert.deepEqual(
    bench.upstreams.calls.map(({ server }) => server),
    ['own', 'mute'],
  );
  const wrong = await bench.run('logging/setLevel', '{"level":"loud"}', { endpoint: endpointOf('shared') });
  assert.ok(wrong.kind === 'failure' && wrong.error.code === 'INVALID_PARAMS');
});

test('a client’s notifications go to its own connections; those of the handshake, and requests without an id, go nowhere', async () => {
  const bench = new GatewayBench(OFFERS);
  const profile = client('stateful');
  const roots = notification('notifications/roots/list_changed', null, 'stateful');
  bench.upstreams.owned.add('b');
  bench.gateway.notify(MCP, roots, profile);
  bench.gateway.notify(MCP, notification('notifications/initialized', null, 'stateful'), profile);
  bench.gateway.notify(endpointOf('a'), roots, profile);
  bench.gateway.notify(endpointOf('a'), roots, client('stateful', { principal: agent('ann', 'b') }));
  for (const method of ['tools/call', 'acme/run']) {
    for (const endpoint of [MCP, endpointOf('a')]) {
      bench.gateway.notify(endpoint, notification(method, null, 'stateful'), profile);
    }
  }
  assert.deepEqual(
    bench.upstreams.notified.map(({ server }) => server),
    ['b', 'a'],
  );
});

test('the end of a session releases what it owned', async () => {
  const bench = new GatewayBench({ r: { resources: ['{"uri":"u://1","name":"u"}'] } });
  bench.upstreams.respond = () => answer(result('1', '{}', 'stateful'));
  await bench.run('resources/subscribe', '{"uri":"u://1"}');
  bench.gateway.sessionEnded('session-1');
  assert.deepEqual(bench.upstreams.released, ['session-1']);
  bench.gateway.notification('r', null, notification('notifications/resources/updated', '{"uri":"u://1"}', 'stateful'));
  assert.deepEqual(bench.streams.delivered, []);
});

test('a subscription that the server refused does not count', async () => {
  const bench = new GatewayBench({ r: { resources: ['{"uri":"u://1","name":"u"}'] } });
  bench.upstreams.respond = () => failure(new GatewayError('NOT_SENT', 'down'));
  await bench.run('resources/subscribe', '{"uri":"u://1"}');
  bench.gateway.notification('r', null, notification('notifications/resources/updated', '{"uri":"u://1"}', 'stateful'));
  await settled();
  assert.deepEqual(bench.streams.delivered, []);
});

test('S2.6 the aggregate’s handshake result merges those of its members, and waits for the first list of each only once', async () => {
  const bench = new GatewayBench({ ...OFFERS, c: null });
  const waiting = bench.gateway.handshake(MCP, client('stateful'), 2_000);
  await settled();
  bench.upstreams.listed('c', { prompts: ['{"name":"p"}'], instructions: 'Say p.' });
  const handshake = await waiting;
  assert.ok(!(handshake instanceof GatewayError));
  assert.deepEqual(JSON.parse(handshake.serverInfo), { name: 'trunkline', title: 'Trunkline', version: '0' });
  assert.deepEqual(JSON.parse(handshake.capabilities), {
    tools: { listChanged: true },
    prompts: { listChanged: true },
  });
  assert.equal(handshake.instructions, '# c\n\nSay p.');
  assert.equal(handshake.handshake, null);
});

test('a stateful session’s subscription at a stateless server is a listen of the gateway, for that session alone', async () => {
  const young = {
    era: 'stateless',
    resources: ['{"uri":"y://1","name":"y"}'],
    capabilities: { resources: { subscribe: true } },
  };
  const bench = new GatewayBench({
    young: young as Advertisement,
    other: { resources: ['{"uri":"y://1","name":"o"}'] },
  });
  bench.upstreams.respond = ({ exchange }) => {
    const filter = '{"notifications":{"resourceSubscriptions":["y://1"]}}';
    exchange.emit(notification('notifications/subscriptions/acknowledged', filter, 'stateless'));
    return new Promise(() => {});
  };
  const params = '{"uri":"trunkline://young/y://1"}';
  const outcome = await bench.run('resources/subscribe', params);
  assert.equal(outcome.kind === 'answer' ? outcome.message.body.toString() : '', '{}');
  const [call] = bench.upstreams.calls;
  assert.equal(call!.request.method, 'subscriptions/listen');
  const tag = '"_meta":{"io.modelcontextprotocol/subscriptionId":0}';
  call!.exchange.emit(notification('notifications/resources/updated', `{${tag},"uri":"y://1","n":1.0}`, 'stateless'));
  assert.deepEqual(
    bench.streams.delivered.map(({ sessionId, message }) => [sessionId, message.era, message.body.toString()]),
    [['session-1', 'stateful', '{"uri":"trunkline://young/y://1","n":1.0}']],
  );
  await bench.run('resources/unsubscribe', params);
  assert.equal(call!.exchange.cancelled, 'the subscription has ended');
  await bench.run('resources/subscribe', params);
  bench.gateway.sessionEnded('session-1');
  assert.equal(bench.upstreams.calls[1]!.exchange.cancelled, 'the subscription has ended');
  assert.equal(bench.clock.pending, 0);
});

test('requests are measured by method and kind of end; unknown methods share one series', async () => {
  const metrics = new Metrics();
  const bench = new GatewayBench(OFFERS, {}, metrics);
  await bench.run('ping', null);
  await bench.run('tools/call', '{"name":"a__nope"}');
  await bench.run('vendor/one', null);
  await bench.run('vendor/two', null);
  const counts = metrics.exposition().match(/_count\{.*/g);
  assert.deepEqual(counts, [
    '_count{mcp_method_name="ping",error_type="",server="",gen_ai_tool_name=""} 1',
    '_count{mcp_method_name="tools/call",error_type="-32602",server="a",gen_ai_tool_name=""} 1',
    '_count{mcp_method_name="_OTHER",error_type="-32601",server="",gen_ai_tool_name=""} 2',
  ]);
});

test('S2.28 check:E1 rights that a reload removes end at once: pushes, lists and listens', async () => {
  const bench = new GatewayBench(OFFERS);
  const ann = agent('ann', 'a', 'b');
  await seen(bench, 'one', MCP, { principal: ann });
  await seen(bench, 'bob', MCP, { principal: agent('bob', 'b') });
  const listen = bench.run('subscriptions/listen', '{"notifications":{"toolsListChanged":true}}', {
    client: client('stateless', { principal: ann }),
  });
  await settled();
  const now = new Map([
    ['agent:ann', agent('ann', 'b')],
    ['agent:bob', agent('bob', 'b')],
  ]);
  bench.gateway.desiredChanged((id) => now.get(id) ?? null);
  bench.gateway.notification('a', 'one', notification('notifications/message', '{}', 'stateful'));
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench), ['one notifications/tools/list_changed']);
  assert.equal((await listen).kind, 'answer');
  now.delete('agent:ann');
  bench.gateway.desiredChanged((id) => now.get(id) ?? null);
  bench.gateway.notification('b', 'one', notification('notifications/message', '{}', 'stateful'));
  assert.equal(reported(bench).length, 1);
});

test('servers that come and go, and changed filters, are reported as changed lists', async () => {
  const bench = new GatewayBench(OFFERS);
  await seen(bench, 'all');
  await seen(bench, 'single-a', endpointOf('a'));
  await seen(bench, 'single-b', endpointOf('b'));
  const listen = bench.exchange('subscriptions/listen', '{"notifications":{"toolsListChanged":true}}', {
    era: 'stateless',
  });
  void bench.gateway.run(listen, MCP);
  await settled();
  const current = () => ANONYMOUS;
  bench.upstreams.list = [serverNamed('a')];
  bench.gateway.desiredChanged(current);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench), ['all notifications/tools/list_changed']);
  assert.equal(listen.emitted.at(-1)!.method, 'notifications/tools/list_changed');
  const tools = { include: null, exclude: new Set(['x']) };
  bench.upstreams.list = [serverNamed('a', { tools })];
  bench.gateway.desiredChanged(current, ['a']);
  await bench.clock.advance(100);
  assert.deepEqual(reported(bench).slice(1).sort(), [
    'all notifications/tools/list_changed',
    'single-a notifications/tools/list_changed',
  ]);
  bench.gateway.desiredChanged(current);
  await bench.clock.advance(100);
  assert.equal(reported(bench).length, 3);
});
