import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  agent,
  type BenchExchange,
  client,
  ended,
  GatewayBench,
  MCP,
  serverNamed,
} from '../../../test/support/gateway-bench.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { Upstreams } from '../../model/ports.ts';
import { result } from '../../protocol/compose.ts';
import { shapeFailure } from '../failure-shape.ts';

const TWO = {
  files: { tools: [tool('read'), tool('write')], prompts: ['{"name":"review"}'] },
  memory: { tools: [tool('read')], prompts: ['{"name":"review"}', '{"name":"recall"}'] },
};

function failed(outcome: Outcome): GatewayError {
  assert.equal(outcome.kind, 'failure');
  return (outcome as Extract<Outcome, { kind: 'failure' }>).error;
}

test('check:D4 a call goes to the server of its exposed name, with that server’s own name and every other byte unchanged', async () => {
  const bench = new GatewayBench(TWO);
  const params =
    '{"_meta":{"a":1.0},"arguments":{"name":"files__read","n":12345678901234567890},"name" : "memory__read" }';
  const outcome = await bench.run('tools/call', params);
  assert.deepEqual(ended(outcome), { from: 'memory' });
  const [call] = bench.upstreams.calls;
  assert.equal(call!.server, 'memory');
  assert.equal(call!.request.body.toString(), params.replace('"memory__read"', '"read"'));
  assert.equal(call!.request.id, '"c1"');
});

test('S4.13 names behind mcp__ and unambiguous bare names are accepted', async () => {
  const bench = new GatewayBench(TWO);
  await bench.run('tools/call', '{"name":"mcp__files__read"}');
  await bench.run('tools/call', '{"name":"write"}');
  assert.deepEqual(
    bench.upstreams.calls.map(({ server, request }) => [server, request.body.toString()]),
    [
      ['files', '{"name":"read"}'],
      ['files', '{"name":"write"}'],
    ],
  );
});

test('S2.31 check:D4 failures of tool calls are isError results in the seeds’ words for stateful clients of the aggregate', async () => {
  const bench = new GatewayBench({ ...TWO, secret: { tools: [tool('x')] } });
  const caller = client('stateful', { principal: agent('ann', 'files', 'memory') });
  const said = async (name: string): Promise<string> => {
    const exchange = bench.exchange('tools/call', JSON.stringify({ name }), { client: caller });
    const error = failed(await bench.gateway.run(exchange, MCP));
    const shaped = JSON.parse(shapeFailure(exchange.request, MCP, error).bytes.toString());
    assert.equal(shaped.id, 'c1');
    assert.equal(shaped.result.isError, true);
    assert.equal(shaped.result._meta['trunkline/error'].code, error.code);
    return shaped.result.content[0].text;
  };
  assert.equal(await said('secret__x'), "Access denied: agent 'ann' cannot use tools from 'secret'");
  assert.equal(await said('nowhere__x'), "Access denied: agent 'ann' cannot use tools from 'nowhere'");
  assert.equal(await said('files__nope'), 'Error: Unknown tool: files__nope');
  assert.equal(await said('read'), 'Error: Unknown tool: read (it could be files__read, memory__read)');
  assert.equal(await said('plain'), 'Invalid tool name: invalid tool name format: plain (expected agent__tool)');
  bench.upstreams.respond = () => failure(new GatewayError('TIMEOUT', 'no answer within 60 s'));
  assert.equal(await said('files__read'), 'Error calling tool: no answer within 60 s');
  assert.equal(bench.upstreams.calls.length, 1);
});

test('S2.31 check:D4 failures of tool calls are JSON-RPC errors for stateless clients and on a server’s own endpoint', async () => {
  const bench = new GatewayBench(TWO);
  const exchange = bench.exchange('tools/call', '{"name":"files__nope"}', { era: 'stateless' });
  const error = failed(await bench.gateway.run(exchange, MCP));
  const shaped = JSON.parse(shapeFailure(exchange.request, MCP, error).bytes.toString());
  assert.deepEqual(shaped.error, { code: -32602, message: 'Unknown tool: files__nope' });
  const stateful = bench.exchange('tools/call', '{"name":"x"}');
  const own = { kind: 'server', server: 'files', path: '' } as const;
  const late = JSON.parse(shapeFailure(stateful.request, own, new GatewayError('TIMEOUT', 'late')).bytes.toString());
  assert.equal(late.error.code, 53003);
  assert.equal(late.error.data.outcome, 'UNKNOWN');
});

test('S2.35 an unknown server and an unknown tool have different errors', async () => {
  const bench = new GatewayBench(TWO);
  assert.match(failed(await bench.run('tools/call', '{"name":"nope__x"}')).message, /unknown agent: nope/);
});

test('params without a name are refused', async () => {
  const bench = new GatewayBench(TWO);
  for (const params of [null, '{}', '{"name":7}', '[]']) {
    assert.equal(failed(await bench.run('tools/call', params)).code, 'INVALID_PARAMS');
  }
  assert.equal(failed(await bench.run('nobody/knows', '{}')).code, 'METHOD_NOT_FOUND');
  assert.equal(failed(await bench.run('prompts/get', '{"name":"nope"}')).code, 'INVALID_PARAMS');
});

test('check:D5 prompts and completions are routed by name', async () => {
  const bench = new GatewayBench({
    ...TWO,
    memory: { ...TWO.memory, capabilities: { prompts: {}, completions: {} } },
  });
  await bench.run('prompts/get', '{"name":"memory__review","arguments":{}}');
  await bench.run(
    'completion/complete',
    '{"ref":{"type":"ref/prompt","name":"recall"},"argument":{"name":"n","value":""}}',
  );
  assert.deepEqual(
    bench.upstreams.calls.map(({ server, request }) => [server, request.body.toString()]),
    [
      ['memory', '{"name":"review","arguments":{}}'],
      ['memory', '{"ref":{"type":"ref/prompt","name":"recall"},"argument":{"name":"n","value":""}}'],
    ],
  );
  const none = await bench.run('completion/complete', '{"ref":{"type":"ref/prompt","name":"files__review"}}');
  assert.deepEqual(ended(none), { completion: { values: [], total: 0, hasMore: false } });
  assert.equal(bench.upstreams.calls.length, 2);
});

test('the gateway answers a ping itself', async () => {
  const bench = new GatewayBench(TWO);
  assert.deepEqual(ended(await bench.run('ping', null)), {});
  assert.equal(bench.upstreams.calls.length, 0);
});

test('S2.28 check:E1 an agent sees and reaches its servers on every path, and an agent without servers sees nothing', async () => {
  const advertised = {
    mine: { tools: [tool('a')], prompts: ['{"name":"p"}'], resources: ['{"uri":"m://1","name":"m"}'] },
    theirs: { tools: [tool('b')], prompts: ['{"name":"q"}'], resources: ['{"uri":"t://1","name":"t"}'] },
  };
  const bench = new GatewayBench(advertised);
  const ann = client('stateful', { principal: agent('ann', 'mine') });
  const listed = async (method: string, profile = ann) => {
    const page = ended(await bench.run(method, null, { client: profile })) as Record<string, { name: string }[]>;
    return Object.values(page)[0]!.map(({ name }) => name);
  };
  assert.deepEqual(await listed('tools/list'), ['mine__a']);
  assert.deepEqual(await listed('prompts/list'), ['mine__p']);
  assert.deepEqual(await listed('resources/list'), ['m']);
  const stranger = client('stateful', { principal: agent('without-servers') });
  assert.deepEqual(await listed('tools/list', stranger), []);
  const everybody = client('stateful', { principal: { id: 'agent:all', name: 'all', servers: null } });
  assert.deepEqual(await listed('tools/list', everybody), ['mine__a', 'theirs__b']);
  for (const [method, params] of [
    ['tools/call', '{"name":"b"}'],
    ['prompts/get', '{"name":"q"}'],
    ['resources/read', '{"uri":"t://1"}'],
    ['resources/read', '{"uri":"trunkline://theirs/t://1"}'],
    ['resources/subscribe', '{"uri":"t://1"}'],
    ['completion/complete', '{"ref":{"type":"ref/prompt","name":"q"}}'],
  ] as const) {
    await bench.run(method, params, { client: ann });
  }
  // A URI that no server lists is requested only from the caller's own servers.
  assert.deepEqual([...new Set(bench.upstreams.calls.map(({ server }) => server))], ['mine']);
  const own = { kind: 'server', server: 'theirs', path: '' } as const;
  for (const method of ['tools/list', 'tools/call', 'ping', 'resources/subscribe', 'anything/else']) {
    assert.equal(failed(await bench.run(method, '{}', { client: ann, endpoint: own })).code, 'ACCESS_DENIED', method);
  }
  const handshake = await bench.gateway.handshake(own, ann, 0);
  assert.ok(handshake instanceof GatewayError && handshake.code === 'ACCESS_DENIED');
  assert.deepEqual([...new Set(bench.upstreams.calls.map(({ server }) => server))], ['mine']);
});

test('a server that was never listed delays a list once, and is found when its tool is called', async () => {
  const bench = new GatewayBench({ ...TWO, slow: null, dead: null });
  let done = false;
  const first = bench.run('tools/list', null, { era: 'stateless' }).finally(() => {
    done = true;
  });
  await bench.clock.advance(1_999);
  assert.equal(done, false);
  assert.deepEqual(
    bench.upstreams.waits.map(({ server, waitMs }) => [server, waitMs]),
    [
      ['dead', 2_000],
      ['slow', 2_000],
    ],
  );
  await bench.clock.advance(1);
  const page = ended(await first) as { tools: { name: string }[]; ttlMs: number };
  assert.equal(page.ttlMs, 0);
  assert.deepEqual(
    page.tools.map(({ name }) => name),
    ['files__read', 'files__write', 'memory__read'],
  );
  // The next list does not wait again.
  const second = ended(await bench.run('tools/list', null, { era: 'stateless' })) as { tools: unknown[] };
  assert.equal(second.tools.length, 3);
  // A call to it is sent without waiting for its list: the server's own answer decides.
  await bench.run('tools/call', '{"name":"slow__go"}', { era: 'stateless' });
  assert.equal(bench.upstreams.calls[0]!.request.body.toString(), '{"name":"go"}');
  bench.upstreams.listed('slow', { tools: [tool('go')] });
  const third = ended(await bench.run('tools/list', null, { era: 'stateless' })) as { tools: { name: string }[] };
  assert.equal(third.tools.at(-1)!.name, 'slow__go');
});

test('goal:G18 the first list of a principal waits for a server that tells principals apart, also after another principal has listed', async () => {
  const bench = new GatewayBench({ own: null }, { own: { callerSeparation: { credentials: true, headers: {} } } });
  const waited = async (name: string): Promise<number> => {
    const list = bench.run('tools/list', null, { client: client('stateless', { principal: agent(name, 'own') }) });
    await bench.clock.advance(2_000);
    await list;
    return bench.upstreams.waits.at(-1)!.waitMs;
  };
  assert.deepEqual([await waited('ada'), await waited('bob'), await waited('ada')], [2_000, 2_000, 0]);
});

test('a waiting list is sent as soon as all servers have been listed', async () => {
  const bench = new GatewayBench({ a: null, b: null });
  const list = bench.run('tools/list', null);
  await settled();
  bench.upstreams.listed('a', { tools: [tool('x')] });
  bench.upstreams.listed('b', { tools: [tool('y')] });
  const page = ended(await list) as { tools: unknown[] };
  assert.equal(page.tools.length, 2);
});

test('S2.19 S2.30 check:D3 a list continues as it began, even when the catalogue changes meanwhile', async () => {
  const many = Array.from({ length: 300 }, (_, i) => tool(`t${i}`));
  const bench = new GatewayBench({ s: { tools: many } });
  const first = ended(await bench.run('tools/list', null)) as { tools: unknown[]; nextCursor: string };
  assert.equal(first.tools.length, 250);
  bench.relist('s', { tools: [tool('new')] }, ['tools']);
  const next = JSON.stringify({ cursor: first.nextCursor });
  const second = ended(await bench.run('tools/list', next)) as { tools: { name: string }[]; nextCursor?: string };
  assert.equal(second.tools[0]!.name, 's__t250');
  assert.equal(second.nextCursor, undefined);
  const again = ended(await bench.run('tools/list', null)) as { tools: unknown[] };
  assert.equal(again.tools.length, 1);
  await bench.clock.advance(300_001);
  const late = failed(await bench.run('tools/list', next));
  assert.equal(late.code, 'INVALID_PARAMS');
  assert.match(late.message, /start again/);
});

test('S2.19 proto:C8 cursors of other lists, other callers or of the client’s making are refused', async () => {
  const many = Array.from({ length: 300 }, (_, i) => tool(`t${i}`));
  const bench = new GatewayBench({ s: { tools: many }, other: { tools: [] } });
  const first = ended(await bench.run('tools/list', null)) as { nextCursor: string };
  const stolen = JSON.stringify({ cursor: first.nextCursor });
  const ann = client('stateful', { principal: agent('ann', 'other') });
  for (const outcome of [
    await bench.run('prompts/list', stolen),
    await bench.run('tools/list', stolen, { client: ann }),
    await bench.run('tools/list', '{"cursor":""}'),
    await bench.run('tools/list', '{"cursor":"MQ=="}'),
    await bench.run('tools/list', '{"cursor":1}'),
  ]) {
    assert.equal(failed(outcome).code, 'INVALID_PARAMS');
  }
});

test('a call looks the catalogue up without merging; a new set of servers or a change is in force at once', async () => {
  const bench = new GatewayBench(TWO);
  const profile = client('stateful');
  const before = await bench.gateway.catalog(profile, 0);
  let looks = 0;
  const { knownCatalog } = bench.upstreams;
  bench.upstreams.knownCatalog = (...asked) => {
    looks++;
    return knownCatalog.apply(bench.upstreams, asked);
  };
  for (let i = 0; i < 10; i++) await bench.run('tools/call', '{"name":"files__read"}', { client: profile });
  assert.equal(looks, 0);
  assert.equal(await bench.gateway.catalog(profile, 0), before);
  bench.upstreams.list = [serverNamed('memory')];
  assert.equal((await bench.gateway.catalog(profile, 0)).tool('files__read'), null);
  assert.equal(
    failed(await bench.run('tools/call', '{"name":"files__read"}', { client: profile })).code,
    'INVALID_PARAMS',
  );
  bench.relist('memory', { tools: [tool('fresh')] }, ['tools']);
  assert.notEqual((await bench.gateway.catalog(profile, 0)).tool('memory__fresh'), null);
});

test('a disabled server is no member', async () => {
  const bench = new GatewayBench(TWO, { files: { enabled: false } });
  const page = ended(await bench.run('tools/list', null)) as { tools: { name: string }[] };
  assert.deepEqual(
    page.tools.map(({ name }) => name),
    ['memory__read'],
  );
});

test('the mirrored headers of a call are compared with the tool’s own declaration', async () => {
  const region =
    '{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}';
  const bench = new GatewayBench({ db: { era: 'stateless', tools: [region] } });
  const params = '{"name":"db__q","arguments":{"region":"eu"}}';
  const run = (paramHeaders: Record<string, string>) =>
    bench.run('tools/call', params, { era: 'stateless', paramHeaders });
  assert.equal(failed(await run({ 'mcp-param-region': 'us' })).code, 'HEADER_MISMATCH');
  assert.equal(failed(await run({})).code, 'HEADER_MISMATCH');
  assert.equal((await run({ 'mcp-param-region': 'eu' })).kind, 'answer');
  const own = { kind: 'server', server: 'db', path: '' } as const;
  const bare = '{"name":"q","arguments":{"region":"eu"}}';
  const direct = await bench.run('tools/call', bare, { era: 'stateless', paramHeaders: {}, endpoint: own });
  assert.equal(failed(direct).code, 'HEADER_MISMATCH');
  assert.equal(bench.upstreams.calls.length, 1);
  // A client of other capabilities, for which the server was not listed yet.
  bench.upstreams.known.delete('db');
  const early = bench.run('tools/call', bare, { era: 'stateless', paramHeaders: {}, endpoint: own });
  await settled();
  bench.upstreams.listed('db', { era: 'stateless', tools: [region] });
  assert.equal(failed(await early).code, 'HEADER_MISMATCH');
});

test('the gateway sends no call for a client that has gone while other nodes were asked', async () => {
  const bench = new GatewayBench({ files: { tools: [tool('read')], prompts: [tool('greet')] } });
  const upstreams: Upstreams = bench.upstreams;
  upstreams.awaitPendingLists = async (_server, exchange) => {
    bench.relist('files', { tools: [tool('grown')], prompts: [tool('grown')] }, ['tools', 'prompts']);
    (exchange as BenchExchange).cancelled = 'the session was ended';
    return true;
  };
  for (const method of ['tools/call', 'prompts/get']) {
    bench.relist('files', { tools: [tool('read')], prompts: [tool('greet')] }, ['tools', 'prompts']);
    const error = failed(await bench.run(method, '{"name":"files__grown"}'));
    assert.deepEqual([error.code, error.outcome], ['CANCELLED', 'NOT_SENT'], method);
  }
  assert.deepEqual(bench.upstreams.calls, []);
});

test('a stateless server’s structured result is wrapped for stateful clients like its schema', async () => {
  const advertised = { n: { era: 'stateless', tools: [tool('t', ',"outputSchema":{"type":"array"}')] } as const };
  const bench = new GatewayBench(advertised);
  bench.upstreams.respond = () =>
    answer(result('1', '{"resultType":"complete","content":[],"structuredContent":[1.0]}', 'stateless'));
  const outcome = await bench.run('tools/call', '{"name":"n__t"}');
  assert.equal(outcome.kind, 'answer');
  assert.match(
    (outcome as Extract<Outcome, { kind: 'answer' }>).message.bytes.toString(),
    /"structuredContent":\{"result":\[1\.0\]\}/,
  );
});

test('check:C9 a name that the client has from another node is called once this node knows it; an unknown name is refused', async () => {
  const bench = new GatewayBench({ files: { tools: [tool('read')], prompts: [tool('greet')] } });
  const asked: string[] = [];
  const upstreams: Upstreams = bench.upstreams;
  upstreams.awaitPendingLists = async (server, _client, list, name) => {
    asked.push(`${server} ${list} ${name}`);
    if (name === 'nobodys') return false;
    const advertisement = { tools: [tool('read'), tool('grown')], prompts: [tool('greet'), tool('asked')] };
    bench.relist('files', advertisement, ['tools', 'prompts']);
    return true;
  };
  await bench.run('tools/call', '{"name":"files__grown"}');
  assert.equal(bench.upstreams.calls.at(-1)?.request.body.toString(), '{"name":"grown"}');
  bench.relist('files', { tools: [tool('read')], prompts: [tool('greet')] }, ['tools', 'prompts']);
  await bench.run('prompts/get', '{"name":"files__asked"}');
  assert.equal(bench.upstreams.calls.at(-1)?.request.body.toString(), '{"name":"asked"}');
  for (const name of ['nothing', 'nobodys']) {
    const unknown = failed(await bench.run('tools/call', `{"name":"files__${name}"}`));
    assert.match(unknown.message, new RegExp(`^Unknown tool: files__${name}`));
  }
  assert.match(failed(await bench.run('prompts/get', '{"name":"files__nothing"}')).message, /^Unknown prompt/);
  await bench.run('tools/call', '{"name":"nobody__nothing"}');
  await bench.run('prompts/get', '{"name":"nobody__nothing"}');
  const all = ['tools grown', 'prompts asked', 'tools nothing', 'tools nobodys', 'prompts nothing'];
  assert.deepEqual(
    asked,
    all.map((one) => `files ${one}`),
    'no list is awaited for an unknown server',
  );
});
