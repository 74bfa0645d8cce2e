import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agent, client, endpointOf, GatewayBench, type RunOptions } from '../../../test/support/gateway-bench.ts';
import { type Advertisement, tool } from '../../../test/support/server-catalogs.ts';
import { answer } from '../../model/outcome.ts';
import type { Server } from '../../model/server.ts';
import { errorAnswer, result } from '../../protocol/compose.ts';

const OFFER: Advertisement = { tools: [tool('a'), tool('b')] };
const OWN: RunOptions = { endpoint: endpointOf('s') };

function limits(callsPerMinute?: number): Pick<Server, 'limits'> {
  return { limits: { maxMessageBytes: 1, maxProcesses: 1, callsPerMinute } };
}

function limited(callsPerMinute: number, advertisement = OFFER, more: Partial<Server> = {}): GatewayBench {
  return new GatewayBench(
    { s: advertisement, t: advertisement },
    { s: { ...limits(callsPerMinute), ...more }, t: limits(callsPerMinute) },
  );
}

/** `answer`, or the code of the failure with its `retryAfterMs`. */
async function call(bench: GatewayBench, name: string, more: RunOptions = {}): Promise<string> {
  const outcome = await bench.run('tools/call', JSON.stringify({ name }), more);
  if (outcome.kind === 'answer') return outcome.message.kind === 'result' ? 'answer' : 'error';
  return `${outcome.error.code} ${outcome.error.data.retryAfterMs}`;
}

test('fault:F23 a burst up to the limit passes, then one call per interval; the refusal says how long to wait', async () => {
  const bench = limited(3);
  for (let i = 0; i < 3; i++) assert.equal(await call(bench, 's__a'), 'answer');
  assert.equal(await call(bench, 's__a'), 'RATE_LIMITED 20000');
  await bench.clock.advance(5_000);
  assert.equal(await call(bench, 's__a'), 'RATE_LIMITED 15000');
  assert.equal(bench.upstreams.calls.length, 3);
  await bench.clock.advance(15_000);
  assert.equal(await call(bench, 's__a'), 'answer');
  assert.equal(await call(bench, 's__a'), 'RATE_LIMITED 20000');
  await bench.clock.advance(60_000);
  for (let i = 0; i < 3; i++) assert.equal(await call(bench, 's__a'), 'answer');
  assert.equal(await call(bench, 's__a'), 'RATE_LIMITED 20000');
});

test('each caller, server and tool is counted separately, on both endpoints together', async () => {
  const bench = limited(1);
  assert.equal(await call(bench, 's__a'), 'answer');
  assert.equal(await call(bench, 'a', OWN), 'RATE_LIMITED 60000');
  assert.equal(await call(bench, 'a', { ...OWN, era: 'stateless' }), 'RATE_LIMITED 60000');
  for (const other of ['s__b', 't__a', 't__b']) assert.equal(await call(bench, other), 'answer', other);
  const x = client('stateful', { principal: agent('x', 's') });
  assert.equal(await call(bench, 's__a', { client: x }), 'answer');
  assert.equal(await call(bench, 's__a', { client: x }), 'RATE_LIMITED 60000');
});

test('names that the server does not list count as one tool, so that clients cannot create entries', async () => {
  const bench = limited(2);
  assert.equal(await call(bench, 'x1', OWN), 'answer');
  assert.equal(await call(bench, 'x2', OWN), 'answer');
  assert.match(await call(bench, 'x3', OWN), /^RATE_LIMITED/);
  assert.equal(await call(bench, 'a', OWN), 'answer');
});

test('calls that another policy refuses do not count, nor do lists, prompts and reads', async () => {
  const bench = limited(
    1,
    { ...OFFER, prompts: ['{"name":"a"}'], resources: ['{"uri":"r:1","name":"r"}'] },
    {
      tools: { include: new Set(['a']), exclude: new Set() },
    },
  );
  for (let i = 0; i < 3; i++) {
    assert.match(await call(bench, 'b', OWN), /^INVALID_PARAMS/);
    const denied = await call(bench, 'a', { ...OWN, client: client('stateful', { principal: agent('x', 't') }) });
    assert.match(denied, /^ACCESS_DENIED/);
    await bench.run('tools/list', null, OWN);
    await bench.run('prompts/get', '{"name":"a"}', OWN);
    await bench.run('resources/read', '{"uri":"r:1"}', OWN);
  }
  assert.equal(await call(bench, 'a', OWN), 'answer');
  assert.match(await call(bench, 'a', OWN), /^RATE_LIMITED/);
});

test('a call that is sent again as a task, and polled, counts once', async () => {
  const required = tool('a', ',"execution":{"taskSupport":"required"}');
  const capabilities = { tools: {}, tasks: { requests: { tools: { call: {} } } } };
  const bench = limited(1, { tools: [required], capabilities });
  const { upstreams } = bench;
  const known = upstreams.known.get('s')!;
  upstreams.known.delete('s');
  upstreams.respond = ({ request }) => {
    if (request.method === 'tasks/result') return answer(result('1', '{"content":[]}', 'stateful'));
    if (request.body.includes('"task"')) {
      return answer(result('1', '{"task":{"taskId":"t-1","status":"working","ttl":null}}', 'stateful'));
    }
    upstreams.known.set('s', known);
    return answer(errorAnswer('1', -32601, 'as a task only', null, 'stateful'));
  };
  assert.equal(await call(bench, 'a', OWN), 'answer');
  assert.deepEqual(
    upstreams.calls.map(({ request }) => request.method),
    ['tools/call', 'tools/call', 'tasks/result'],
  );
  // The first call counted as one of a name that is not listed.
  assert.equal(await call(bench, 'a', OWN), 'answer');
  assert.match(await call(bench, 'a', OWN), /^RATE_LIMITED/);
});

test('proto:H6 a call whose headers were compared with a list that was read again counts once', async () => {
  const declaring = (header: string) =>
    `{"name":"a","inputSchema":{"type":"object","properties":{"k":{"type":"string","x-mcp-header":"${header}"}}}}`;
  const advertisement: Advertisement = {
    era: 'stateless',
    tools: [declaring('Old')],
    ttlMs: 1_000,
    capabilities: { tools: {} },
  };
  const bench = limited(1, advertisement);
  const { upstreams } = bench;
  upstreams.states.set('s', 'running');
  await bench.clock.advance(10_000_000);
  const more = { ...OWN, era: 'stateless', paramHeaders: { 'mcp-param-new': 'v' } } as const;
  const headed = () => bench.run('tools/call', '{"name":"a","arguments":{"k":"v"}}', more);
  const catalog = upstreams.catalog.bind(upstreams);
  upstreams.catalog = (...words) => {
    bench.relist('s', { ...advertisement, tools: [declaring('New')], listedAt: bench.clock.wall() }, ['tools']);
    return catalog(...words);
  };
  assert.equal((await headed()).kind, 'answer');
  const again = await headed();
  assert.equal(again.kind === 'failure' && again.error.code, 'RATE_LIMITED');
});

test('used calls stay counted when other servers change; a changed limit starts a new count', async () => {
  const bench = limited(1);
  const { upstreams } = bench;
  assert.equal(await call(bench, 'a', OWN), 'answer');
  upstreams.list = [...upstreams.list];
  bench.gateway.desiredChanged(() => client('stateful').principal);
  assert.match(await call(bench, 'a', OWN), /^RATE_LIMITED/);
  upstreams.list = upstreams.list.map((server) => ({ ...server, ...limits() }));
  for (let i = 0; i < 5; i++) assert.equal(await call(bench, 'a', OWN), 'answer');
});
