import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { client, ended, endpointOf, GatewayBench, MCP } from '../../../test/support/gateway-bench.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { loginAdvice } from '../../model/server-state.ts';
import { errorOf, result } from '../../protocol/compose.ts';

const endpoint = endpointOf('s');
const PAGED = { tools: [tool('a'), tool('b'), tool('c')], pageSize: 2 };

function error(outcome: Outcome): GatewayError {
  assert.equal(outcome.kind, 'failure');
  return (outcome as Extract<Outcome, { kind: 'failure' }>).error;
}

test('check:D11 all requests go to the server unchanged, unknown methods too, but no subscriptions/listen of a session', async () => {
  const bench = new GatewayBench({ s: { tools: [tool('a')] } });
  const params = '{"name":"not__prefixed","x":1.0}';
  for (const method of ['tools/call', 'prompts/get', 'vendor/method', 'tasks/get', 'logging/setLevel']) {
    await bench.run(method, params, { endpoint });
    const call = bench.upstreams.calls.at(-1)!;
    assert.equal(call.request.method, method);
    assert.equal(call.request.body.toString(), params);
  }
  assert.deepEqual(ended(await bench.run('ping', null, { endpoint })), {});
  assert.equal(bench.upstreams.calls.length, 5);
  // It would be a call without a deadline.
  assert.equal(error(await bench.run('subscriptions/listen', '{}', { endpoint })).code, 'METHOD_NOT_FOUND');
  assert.equal(bench.upstreams.calls.length, 5);
});

test('check:D11 lists of a local server come page by page from the known catalogue, and start no process', async () => {
  const bench = new GatewayBench({ s: PAGED });
  const first = ended(await bench.run('tools/list', null, { endpoint })) as {
    tools: { name: string }[];
    nextCursor: string;
  };
  assert.deepEqual(
    first.tools.map(({ name }) => name),
    ['a', 'b'],
  );
  const second = ended(await bench.run('tools/list', JSON.stringify({ cursor: first.nextCursor }), { endpoint }));
  assert.deepEqual(second, { tools: [{ name: 'c', inputSchema: { type: 'object' } }] });
  assert.equal(error(await bench.run('tools/list', '{"cursor":"else"}', { endpoint })).code, 'INVALID_PARAMS');
  assert.equal(error(await bench.run('prompts/list', null, { endpoint })).code, 'METHOD_NOT_FOUND');
  assert.equal(bench.upstreams.calls.length, 0);
});

test('a session with its own connection, and a server that is no process, are asked live', async () => {
  const bench = new GatewayBench({ s: PAGED });
  bench.upstreams.owned.add('s');
  await bench.run('tools/list', '{"cursor":"page-1"}', { endpoint });
  assert.equal(bench.upstreams.calls[0]!.request.body.toString(), '{"cursor":"page-1"}');
  const http = { type: 'http', url: 'http://x', headers: {}, tls: {} } as const;
  const remote = new GatewayBench({ s: PAGED }, { s: { transport: http } });
  await remote.run('tools/list', null, { endpoint });
  assert.equal(remote.upstreams.calls.length, 1);
  const stateless = new GatewayBench({ s: { ...PAGED, era: 'stateless' } });
  await stateless.run('tools/list', null, { endpoint, era: 'stateless' });
  assert.equal(stateless.upstreams.calls.length, 1);
});

test('when the server cannot be asked, the known lists are returned as stale', async () => {
  const http = { type: 'http', url: 'http://x', headers: {}, tls: {} } as const;
  const bench = new GatewayBench({ s: { ...PAGED, era: 'stateless' } }, { s: { transport: http } });
  bench.upstreams.respond = () => failure(new GatewayError('NOT_SENT', 'refused'));
  const page = ended(await bench.run('tools/list', null, { endpoint, era: 'stateless' })) as {
    tools: unknown[];
    ttlMs: number;
  };
  assert.equal(page.tools.length, 2);
  assert.equal(page.ttlMs, 0);
  bench.upstreams.states.set('s', 'unreachable');
  await bench.run('tools/list', null, { endpoint, era: 'stateless' });
  assert.equal(bench.upstreams.calls.length, 1);
});

test('the wait for a local server that was never listed is as long as that of a call', async () => {
  const bench = new GatewayBench({ s: null });
  const list = bench.run('tools/list', null, { endpoint });
  await settled();
  await bench.clock.advance(10_000);
  bench.upstreams.listed('s', PAGED);
  assert.equal((ended(await list) as { tools: unknown[] }).tools.length, 2);
  const down = new GatewayBench({ s: null });
  down.upstreams.states.set('s', 'failed');
  const never = down.run('tools/list', null, { endpoint });
  await settled();
  await down.clock.advance(60_000);
  const refused = error(await never);
  assert.equal(refused.code, 'NOT_SENT');
  assert.equal(refused.message, "Server 's' is failed: because");
});

test('the operator’s tool filter applies here too, in live and known lists, and for calls', async () => {
  const tools = { include: null, exclude: new Set(['b']) };
  const bench = new GatewayBench({ s: PAGED }, { s: { tools } });
  const page = ended(await bench.run('tools/list', null, { endpoint })) as { tools: { name: string }[] };
  assert.deepEqual(
    page.tools.map(({ name }) => name),
    ['a'],
  );
  assert.equal(error(await bench.run('tools/call', '{"name":"b"}', { endpoint })).code, 'INVALID_PARAMS');
  assert.equal(bench.upstreams.calls.length, 0);
  bench.upstreams.owned.add('s');
  bench.upstreams.respond = () =>
    answer(result('1', `{"tools":[${tool('b')},${tool('c', ',"x":1.0')}],"nextCursor":"n"}`, 'stateful'));
  const live = await bench.run('tools/list', null, { endpoint });
  assert.equal(
    live.kind === 'answer' ? live.message.body.toString() : '',
    `{"tools":[${tool('c', ',"x":1.0')}],"nextCursor":"n"}`,
  );
});

test('the handshake result is the server’s own; for an unreachable server the error has the reason', async () => {
  const bench = new GatewayBench({ s: { ...PAGED, instructions: 'Be kind.' }, t: null });
  const handshake = await bench.gateway.handshake(endpoint, client('stateful'), 0);
  assert.ok(!(handshake instanceof GatewayError));
  assert.equal(handshake.serverInfo, '{"name":"s-software","version":"1.0"}');
  assert.equal(handshake.instructions, 'Be kind.');
  assert.equal(handshake.handshake?.revision, '2025-11-25');
  bench.upstreams.states.set('t', 'unreachable');
  const down = await bench.gateway.handshake(endpointOf('t'), client('stateful'), 0);
  assert.ok(down instanceof GatewayError && down.code === 'NOT_SENT' && /unreachable: because/.test(down.message));
  bench.upstreams.states.set('t', 'auth_required');
  const asks = await bench.gateway.handshake(endpointOf('t'), client('stateful'), 0);
  assert.ok(asks instanceof GatewayError && asks.code === 'AUTH_REQUIRED' && asks.message.includes(loginAdvice('t')));
  const starting = new GatewayBench({ t: null });
  const late = starting.gateway.handshake(endpointOf('t'), client('stateful'), 2_000);
  await starting.clock.advance(20_000);
  starting.upstreams.listed('t', PAGED);
  assert.ok(!((await late) instanceof GatewayError), 'a first start takes its time');
  const none = await bench.gateway.handshake(endpointOf('nope'), client('stateful'), 0);
  assert.ok(none instanceof GatewayError && none.code === 'INVALID_REQUEST');
});

test('an exception inside the gateway is an outcome, not a rejection', async () => {
  const bench = new GatewayBench({ s: PAGED });
  bench.upstreams.servers = () => {
    throw new Error('broken');
  };
  assert.equal(error(await bench.run('tools/list', null, { endpoint })).code, 'INTERNAL');
  assert.equal(error(await bench.run('tools/list', null)).code, 'INTERNAL');
});

test('a tool that only makes tasks works in both eras where its server was unknown before the call', async () => {
  const young = {
    era: 'stateless',
    capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
  } as const;
  const older = { capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } } };
  const missing =
    '{"code":-32021,"message":"no","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}';
  const must = tool('must', ',"execution":{"taskSupport":"required"}');
  for (const [advertisement, refusal] of [
    [{ ...young, tools: [tool('must')] }, missing],
    [{ ...older, tools: [must] }, '{"code":-32601,"message":"no"}'],
  ] as const) {
    const bench = new GatewayBench({ s: null });
    const asked: string[] = [];
    bench.upstreams.respond = ({ request: sent }) => {
      asked.push(sent.body.toString());
      // The server is listed meanwhile.
      bench.upstreams.known.set('s', serverCatalog('s', advertisement));
      const plain = asked.length === 1 || !/io.modelcontextprotocol\/tasks|"task":/.test(sent.body.toString());
      return answer(plain ? errorOf('1', Buffer.from(refusal), sent.era) : result('1', '{"content":[]}', sent.era));
    };
    const outcome = await bench.run('tools/call', '{"name":"must","arguments":{}}', { endpoint });
    assert.deepEqual(ended(outcome), { content: [] }, asked.join('\n'));
  }
});

test('a node that did not know a server of 2026-07-28 does not send it a log level', async () => {
  const bench = new GatewayBench({ s: null });
  const young = { era: 'stateless', capabilities: { tools: {}, logging: {} }, tools: [tool('a')] } as const;
  bench.upstreams.respond = ({ request: sent }) =>
    answer(errorOf('1', Buffer.from('{"code":-32601,"message":"no"}'), sent.era));
  const set = bench.run('logging/setLevel', '{"level":"info"}', { endpoint });
  await bench.clock.advance(10);
  bench.upstreams.listed('s', young);
  assert.deepEqual(ended(await set), {});
  assert.equal(bench.upstreams.calls.length, 0);
});

test('goal:G4 a call refused before its server was known is repeated only for a tool that makes only tasks', async () => {
  const older = { capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } } };
  const young = {
    era: 'stateless',
    capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
  } as const;
  const required = ',"execution":{"taskSupport":"required"}';
  const notFound = '{"code":-32601,"message":"no"}';
  const missing =
    '{"code":-32021,"message":"no","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}';
  for (const [advertisement, refusal, era] of [
    [{ tools: [tool('a', required)] }, notFound, 'stateful'],
    [{ ...older, tools: [tool('a'), tool('b', required)] }, notFound, 'stateful'],
    [{ ...older, tools: [tool('a', ',"execution":{"taskSupport":"optional"}')] }, notFound, 'stateful'],
    [{ ...older, tools: [tool('a', ',"execution":{"taskSupport":"optional"}')] }, notFound, 'stateless'],
    [{ ...older, tools: [tool('b', required)] }, notFound, 'stateful'],
    [{ ...older, tools: [tool('a', required)] }, missing, 'stateful'],
    [{ ...young, tools: [tool('a', required)] }, notFound, 'stateful'],
    [{ ...young, tools: [tool('a')] }, missing, 'stateless'],
  ] as const) {
    const bench = new GatewayBench({ s: null });
    bench.upstreams.respond = ({ request: sent }) => {
      bench.upstreams.known.set('s', serverCatalog('s', advertisement));
      return answer(errorOf('1', Buffer.from(refusal), sent.era));
    };
    const outcome = await bench.run('tools/call', '{"name":"a"}', { endpoint, era });
    assert.deepEqual(ended(outcome), JSON.parse(refusal));
    assert.equal(bench.upstreams.calls.length, 1, `${JSON.stringify(advertisement)} ${refusal} ${era}`);
  }
});

test('a structured result has the form of the schema that other nodes list, where its server was unknown before the call', async () => {
  const object = ',"structuredContent":{"a":1}';
  const unlisted = (structured: string): GatewayBench => {
    const bench = new GatewayBench({ s: null });
    const text = `{"resultType":"complete","content":[{"type":"text","text":"t"}]${structured}}`;
    bench.upstreams.respond = () => answer(result('1', text, 'stateless'));
    return bench;
  };
  const structuredOf = (outcome: Outcome): unknown =>
    (ended(outcome) as { structuredContent?: unknown }).structuredContent;
  for (const [schema, expected] of [
    ['{"anyOf":[{"type":"object"}]}', { result: { a: 1 } }],
    ['{"type":"object"}', { a: 1 }],
    [null, { a: 1 }],
  ] as const) {
    for (const [name, at] of [
      ['t', endpoint],
      ['s__t', MCP],
    ] as const) {
      const bench = unlisted(object);
      const call = bench.run('tools/call', JSON.stringify({ name }), { endpoint: at });
      await settled();
      // The aggregate has waited in vain for a list before the call.
      if (at === MCP) await bench.clock.advance(2_000);
      await settled();
      const sent = bench.upstreams.calls.length;
      // Without a list the answer of a call that has run is returned as it is, after a short wait.
      if (schema === null) await bench.clock.advance(2_000);
      else bench.upstreams.listed('s', { era: 'stateless', tools: [tool('t', `,"outputSchema":${schema}`)] });
      assert.deepEqual(structuredOf(await call), expected, `${name} ${schema}`);
      assert.deepEqual([sent, bench.upstreams.calls.length], [1, 1], 'the call is sent once');
    }
  }
  // Other answers do not depend on the list.
  for (const [structured, era] of [
    ['', 'stateful'],
    [',"structuredContent":[1]', 'stateful'],
    [object, 'stateless'],
  ] as const) {
    const bench = unlisted(structured);
    await bench.run('tools/call', '{"name":"t"}', { endpoint, era });
    assert.deepEqual(bench.upstreams.waits, []);
  }
});
